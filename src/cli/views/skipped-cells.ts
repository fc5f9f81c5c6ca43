import type { SkippedGroup } from '../../domain/report/run.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { formatCount, pluralize, sanitize } from '../../util/text.ts'
import { padText, textWidth, truncate, wrapText, type Output } from '../terminal.ts'
import { formatValue, placeBeside, renderSection } from './layout.ts'

const MAX_VALUE_COLUMNS = 40
/** Narrower than this, the reason stands below the column. */
const MIN_REASON_COLUMNS = 24

/**
 * A section of skipped cells by column and reason with their values, the most frequent first; empty
 * without any. Texts are wrapped and never cut. What is beyond `max` are the rarest; they are summed up.
 */
export function renderSkippedSection(
  title: string,
  groups: readonly SkippedGroup[],
  output: Output,
  max = 8,
): string[] {
  if (groups.length === 0) return []
  const { paint, textColumns } = output
  const sorted = groups.toSorted((a, b) => b.rows - a.rows)
  // One more line names the reason itself.
  const shown = sorted.slice(0, sorted.length === max + 1 ? sorted.length : max)
  const rest = sorted.slice(shown.length)
  const several = new Set(groups.map((group) => group.source)).size > 1
  const nameOf = ({ source, column }: SkippedGroup): string =>
    sanitize(several ? `${source}.${column}` : column)
  const numbers = Math.max(...shown.map((group) => formatCount(group.rows).length))
  const names = Math.max(...shown.map((group) => textWidth(nameOf(group))))
  const isWide = textColumns - numbers - names - 6 >= MIN_REASON_COLUMNS
  const room = textColumns - numbers - (isWide ? names + 6 : 4)
  return renderSection(output, title, [
    ...shown.flatMap((group) => {
      const count = `  ${formatCount(group.rows).padStart(numbers)}  `
      const texts = [
        ...wrapText(group.description, room),
        ...wrapText(
          listValues(group, (value) => truncate(formatValue(value), MAX_VALUE_COLUMNS)),
          room,
        ).map((line) => paint('quiet', line)),
      ].filter((line) => line !== '')
      return isWide
        ? placeBeside(`${count}${padText(nameOf(group), names)}  `, texts)
        : placeBeside(count, [nameOf(group), ...texts])
    }),
    ...(rest.length === 0 ? [] : [`  ${paint('quiet', describeRarest(rest, 'cell'))}`]),
  ])
}

/** Sums up the reasons that are not shown: `and 7 rows for 3 rarer reasons`. */
export function describeRarest(rest: readonly { readonly rows: number }[], noun: string): string {
  const all = rest.reduce((sum, { rows }) => sum + rows, 0)
  return `and ${pluralize(all, noun)} for ${pluralize(rest.length, 'rarer reason')}`
}

/** Reasons that lie in the value: all values are listed with their numbers, and examples for the other reasons. */
const ABOUT_VALUES: ReadonlySet<SkipReason> = new Set(['unmapped', 'no_such_label', 'no_value'])

const MAX_VALUES = 10
const MAX_EXAMPLES = 3

/** The most frequent values of a group as text: `Fintech (7), Biotech (5), 12 more values`. */
function listValues(
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
