import { padText, textWidth, wrapText, type Output, type TextStyle } from '../terminal.ts'
import { sanitize, formatCount } from '../../util/text.ts'
import { FAILED_ROW_STATES, type RowState } from '../../domain/row.ts'

/** The entries of a list that apply; a condition that does not hold leaves false, a text that is not there null. */
export const compact = <Entry>(entries: readonly (Entry | false | null)[]): Entry[] =>
  entries.flatMap((entry) => (entry === false || entry === null ? [] : [entry]))

/** Running text, indented by two columns. */
export const renderText = (
  { paint, textColumns }: Output,
  text: string,
  style: TextStyle | null = null,
): string[] =>
  wrapText(text, textColumns - INDENT).map((line) => `  ${style === null ? line : paint(style, line)}`)

/** Lines beside what begins the first of them. */
export function placeBeside(start: string, lines: readonly string[]): string[] {
  const indent = ' '.repeat(textWidth(start))
  return lines.map((line, n) => (n === 0 ? start : indent) + line)
}

/** A heading and the lines below it, after a blank line; empty without lines. */
export const renderSection = (
  { paint }: Pick<Output, 'paint'>,
  title: string,
  lines: readonly string[],
): string[] => (lines.length === 0 ? [] : ['', paint('heading', title), ...lines])

/** Numbers with labels, one per line, and their sum. Zeros are left out. */
export function renderCounts(
  { paint, textColumns }: Output,
  [sum, total]: readonly [n: number, words: string],
  list: readonly (readonly [n: number, words: string])[],
): string[] {
  const columns = formatCount(sum).length
  const lines = list
    .filter(([n]) => n > 0)
    .flatMap(([n, words]) =>
      placeBeside(`  ${formatCount(n).padStart(columns)}  `, wrapText(words, textColumns - columns - 4)),
    )
  return [
    ...lines,
    `  ${paint('quiet', '─'.repeat(columns))}`,
    `  ${paint('heading', `${formatCount(sum)}  ${total}`)}`,
  ]
}

/** A label, a text, and details that are printed in parentheses if they fit on the line; false or null: nothing. */
export type Field = readonly [label: string, text: string, more?: string] | false | null

const INDENT = 2
const LABEL_GAP = 3

/** With less room than this, a text stands below its label. */
const MIN_FIELD_COLUMNS = 22

/** Labels with wrapped texts beside them. */
export function renderFields(
  { paint, textColumns }: Output,
  fields: readonly Field[],
  style: TextStyle = 'quiet',
): string[] {
  const list = compact(fields)
  const labels = Math.max(...list.map(([label]) => textWidth(label)))
  const beside = textColumns - INDENT - labels - LABEL_GAP
  const isNarrow = beside < MIN_FIELD_COLUMNS
  const room = isNarrow ? textColumns - 2 * INDENT : beside
  return list.flatMap(([label, text, more = '']) => {
    const joined = more === '' ? text : `${text} (${more})`
    const lines =
      textWidth(joined) <= room || more === ''
        ? wrapText(joined, room)
        : [...wrapText(text, room), ...wrapText(more, room)]
    if (isNarrow) return [`  ${paint(style, label)}`, ...lines.map((line) => ' '.repeat(2 * INDENT) + line)]
    const start = `  ${paint(style, padText(label, labels))}${' '.repeat(LABEL_GAP)}`
    return placeBeside(start, lines).map((line) => line.trimEnd())
  })
}

/** Numbers with labels on one line: `3 found, 1 failed`. Zeros are left out. */
export function formatCounts<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  words: Partial<Record<NoInfer<Name>, string>>,
  between = ', ',
): string {
  return (Object.entries(words) as [Name, string][])
    .filter(([name]) => numbers[name] > 0)
    .map(([name, word]) => `${formatCount(numbers[name])} ${word}`)
    .join(between)
}

/** The sum of numbers and its parts: `31 = 28 completed + 3 failed`. Null if it is 0. */
export function formatSum<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  words: Partial<Record<NoInfer<Name>, string>>,
): string | null {
  const sum = (Object.keys(words) as Name[]).reduce((all, name) => all + numbers[name], 0)
  return sum === 0 ? null : `${formatCount(sum)} = ${formatCounts(numbers, words, ' + ')}`
}

const NONE = '—'

/**
 * Formats a value of a column or record on one line: a text as it is, quoted if it is blank or has blanks
 * around it; anything else as JSON.
 */
export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return NONE
  const isPlain = typeof value === 'string' && value !== '' && value === value.trim() && value !== NONE
  return sanitize(isPlain ? value : JSON.stringify(value))
}

export function stateStyle(state: RowState): TextStyle | null {
  if (state === 'enriched') return 'good'
  if (state === 'waiting') return 'warn'
  return (FAILED_ROW_STATES as readonly RowState[]).includes(state) ? 'bad' : null
}
