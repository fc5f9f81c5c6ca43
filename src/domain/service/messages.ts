// What the functions of an adapter get and return, beside their inputs.

/** A response, its body parsed; `body` is undefined if it is not JSON. Header names are in lower case. */
export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

/** Values of a query; undefined is left out. */
export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>
