export const FIELD_TYPES = ['text', 'number', 'list', 'object'] as const
/** What a description says of a field. A text may hold anything: a range, a date, digits. */
export type FieldType = (typeof FIELD_TYPES)[number]

/** What the values of a field look like, as far as it can be known before the first answer. */
export interface FieldShape {
  readonly type: FieldType
  /** For a message: `a range such as 51-200`. */
  readonly description: string
  /** Usual values, from the shortest or smallest to the longest or largest. */
  readonly examples: readonly unknown[]
  /**
   * - `fixed`: every value has the form of the examples
   * - `open`: a text that the service documents no values of; the examples are the usual ones
   * - `unknown`: the service does not document the form
   */
  readonly form: 'fixed' | 'open' | 'unknown'
}
