export const FIELD_TYPES = ['text', 'number', 'list', 'object'] as const
export const FIELD_FORMS = ['fixed', 'open', 'unknown'] as const

/** What the values of a field look like, as far as it can be known before the first answer. */
export interface FieldShape {
  readonly type: (typeof FIELD_TYPES)[number]
  /** For a message: `a range such as 51-200`. */
  readonly description: string
  /** Usual values, from the shortest or smallest to the longest or largest. */
  readonly examples: readonly unknown[]
  /**
   * - `fixed`: every value has the form of the examples
   * - `open`: a text that the service documents no values of; the examples are the usual ones
   * - `unknown`: the service does not document the form
   */
  readonly form: (typeof FIELD_FORMS)[number]
}

/** A field: its type, or its type with more facts. */
export type FieldDefinition = FieldShape['type'] | (Pick<FieldShape, 'type'> & Partial<FieldShape>)
