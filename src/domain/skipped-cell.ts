import { formatCount, pluralize } from '../util/text.ts'

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
  not_a_bit_string: () => 'the value is not a bit string of the column’s length',
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

/** Skipped cells of one column and reason, with the most frequent of their values. */
export interface SkippedGroup extends Pick<SkippedCell, 'column' | 'reason' | 'detail'> {
  readonly source: string
  /** The reason in words. */
  readonly description: string
  readonly rows: number
  readonly distinct_values: number
  /** Most frequent first. */
  readonly values: ReadonlyArray<{ readonly value: unknown; readonly rows: number }>
}

/** Values kept of a group. */
export const MAX_LISTED_VALUES = 25

/** Reasons that lie in the value: all values are listed with their numbers, and examples for the other reasons. */
const ABOUT_VALUES: ReadonlySet<SkipReason> = new Set(['unmapped', 'no_such_label', 'no_value'])

const MAX_VALUES = 10
const MAX_EXAMPLES = 3

/** The most frequent values of a group as text: `Fintech (7), Biotech (5), 12 more values`. */
export function listValues(
  { reason, values, distinct_values: distinct }: SkippedGroup,
  format: (value: unknown) => string,
): string {
  const isAboutValues = ABOUT_VALUES.has(reason)
  const shown = values.slice(0, isAboutValues ? MAX_VALUES : MAX_EXAMPLES)
  if (shown.length === 0) return ''
  const texts = shown.map(({ value, rows }) =>
    rows === 1 && !isAboutValues ? format(value) : `${format(value)} (${formatCount(rows)})`,
  )
  const more = distinct - shown.length
  return [...texts, ...(more > 0 ? [pluralize(more, 'more value')] : [])].join(', ')
}

const nameOfGroup = ({
  source,
  column,
  reason,
  detail,
}: Pick<SkippedGroup, 'source' | 'column' | 'reason' | 'detail'>): string =>
  [source, column, reason, detail ?? ''].join('\u0000')

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Distinct values counted per reason in memory. */
const MAX_COUNTED_VALUES = 10_000

/** Counts skipped cells in memory, for what is previewed and not stored. */
export class SkippedTally {
  readonly #groups = new Map<
    string,
    { group: SkippedGroup; values: Map<string, { value: unknown; rows: number }> }
  >()

  add(source: string, cells: readonly SkippedCell[]): void {
    for (const { column, reason, detail, value } of cells) {
      const name = nameOfGroup({ source, column, reason, detail })
      const description = describeSkip({ reason, detail })
      const empty = { source, column, reason, detail, description, rows: 0, distinct_values: 0, values: [] }
      const { group, values } = this.#groups.get(name) ?? { group: empty, values: new Map() }
      const text = JSON.stringify(value) ?? 'null'
      const known = values.get(text)
      if (known !== undefined) known.rows++
      else if (values.size < MAX_COUNTED_VALUES) values.set(text, { value, rows: 1 })
      this.#groups.set(name, { group: { ...group, rows: group.rows + 1 }, values })
    }
  }

  /** Most frequent first, as the stored ones. */
  groups(): SkippedGroup[] {
    return [...this.#groups.values()]
      .map(({ group, values }) => ({
        ...group,
        distinct_values: values.size,
        values: [...values]
          .sort(([a, x], [b, y]) => y.rows - x.rows || compareText(a, b))
          .slice(0, MAX_LISTED_VALUES)
          .map(([, counted]) => counted),
      }))
      .sort((a, b) => b.rows - a.rows || compareText(nameOfGroup(a), nameOfGroup(b)))
  }
}
