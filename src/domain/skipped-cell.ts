/**
 * Why a value of the record was not written to its cell. `absent` (the record has no value) is not stored: there is
 * nothing to list.
 */
export const SKIP_REASONS = {
  absent: () => 'the record has no value',
  below_confidence: (bound) =>
    bound === null ? 'the confidence is too low' : `the confidence is below ${bound}`,
  unmapped: () => '`map` has no entry for the value',
  no_match: () => 'the value does not match `matches`',
  too_long: () => 'the text is longer than the column allows',
  out_of_range: () => 'the number is out of range for the column',
  no_such_label: () => 'the column has no such label',
  not_a_text: () => 'the value is not a text',
  not_a_number: () => 'the value is not a number',
  not_an_integer: () => 'the value is not an integer',
  not_a_boolean: () => 'the value is not a boolean',
  not_a_date: () => 'the value is not a date',
  not_a_timestamp: () => 'the value is not a timestamp',
  not_a_uuid: () => 'the value is not a UUID',
  group_incomplete: (cause) => `a group is written as a whole${after(cause)}`,
  no_value: () => 'its `sql` returns nothing for the value',
  sql_failed: (error) => `its \`sql\` fails for the value${after(error)}`,
  touch_failed: (error) => `its expression in \`touch\` fails${after(error)}`,
  unique: (constraint) => `duplicate value: another row has it, and it must be unique${named(constraint)}`,
  exclusion: (constraint) => `it conflicts with another row${named(constraint)}`,
  check: (constraint) => `a CHECK constraint does not allow the value${named(constraint)}`,
  foreign_key: (target) =>
    target === null ? 'there is no such row to refer to' : `there is no such row in ${target}`,
  not_null: () => 'the column may not be empty',
  rejected: (error) => `the database rejects the value${after(error)}`,
  row_rejected: (error) => `the row could not be written${after(error)}`,
} as const satisfies Record<string, (detail: string | null) => string>

const after = (detail: string | null): string => (detail === null ? '' : `: ${detail}`)
const named = (detail: string | null): string => (detail === null ? '' : ` (${detail})`)

export type SkipReason = keyof typeof SKIP_REASONS

const DATABASE_REASONS: ReadonlySet<SkipReason> = new Set([
  ...(['sql_failed', 'touch_failed', 'unique', 'exclusion', 'check', 'foreign_key'] as const),
  ...(['not_null', 'rejected', 'row_rejected'] as const),
])

/** Whether the database has rejected the value; other values did not fit before the write. */
export const isRejectedByDatabase = ({ reason }: Pick<SkippedCell, 'reason'>): boolean =>
  DATABASE_REASONS.has(reason)

/** A cell that a write left as it was although the record has a value for it. */
export interface SkippedCell {
  readonly column: string
  readonly reason: SkipReason
  /** What the reason alone does not say: the constraint, the bound, the error. Without values: those may be personal. */
  readonly detail: string | null
  /** The record's value, as the service sent it. */
  readonly value: unknown
}

/** The reason in words, without the value. */
export const describeSkip = ({ reason, detail }: Pick<SkippedCell, 'reason' | 'detail'>): string =>
  SKIP_REASONS[reason](detail)

/** Values kept of a group. */
export const MAX_LISTED_VALUES = 25
