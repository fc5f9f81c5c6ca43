import type { RowHistory, RowStatus } from '../../domain/report/explain.ts'
import { createParser, defineCommand } from '../command.ts'
import { useApp } from '../settings.ts'
import { describeChange, describeOrigin, listLookupFacts, listRowNotes } from '../../actions/explain/words.ts'
import { Row, formatState } from '../../domain/row.ts'
import { truncate, type Output } from '../terminal.ts'
import { sanitize, formatTime, relativeTime } from '../../util/text.ts'
import {
  compact,
  formatValue,
  renderFields,
  renderSection,
  renderText,
  stateStyle,
  type Field,
} from '../views/layout.ts'
import { renderCellGroups, renderTable } from '../views/table.ts'

export const explainCommand = defineCommand(
  createParser('explain')
    .summary('shows the history of one row: inputs, lookups, record, changes, next step')
    .description(
      'Everything about one row: its current values and who wrote them, its lookups and records, every change with ' +
        'the values before and after, and when and why it is due again.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .argument('<KEY>', 'the key of the row; for several columns a JSON array'),
  {
    group: 'inspect',
    examples: [
      ['fillrate explain contacts 4711', ''],
      ['fillrate explain members \'["acme","17"]\' --json', 'with the complete record'],
    ],

    async handler(call) {
      const [source, key] = call.args
      const { app } = await useApp(call, { opensUnreviewed: true })
      const history = await app.explain(source, key)
      return { json: history, text: () => renderRowHistory(history, call.stdout, call.now()) }
    },
  },
)

/** The history of one row: its state, values, lookups, record and changes, and the next step. */
export function renderRowHistory(history: RowHistory, output: Output, now: number): string[] {
  const { paint } = output
  const part = (title: string, lines: readonly string[]): string[] => renderSection(output, title, lines)
  return [
    `${paint('heading', sanitize(`${history.source} ${history.key}`))}  ${paint('quiet', `in ${history.table}`)}`,
    ...renderState(history, output, now),
    ...part('Current values', renderValues(history, output)),
    ...part('Lookup', renderLookups(history, output, now)),
    ...part('Enrichment record', renderRecord(history, output)),
    ...part('Changes by Fillrate', renderChanges(history, output, now)),
    ...part('Next step', renderNextStep(history, output, now)),
  ]
}

function renderState(history: RowHistory, output: Output, now: number): string[] {
  const { state } = history
  const notes = listRowNotes(history).map(({ text, style }) =>
    style === null ? sanitize(text) : output.paint(style, sanitize(text)),
  )
  const lines = [state === null ? 'never picked' : formatRowState(state, output, now), ...notes]
  return lines.flatMap((line) => renderText(output, line))
}

function formatRowState(
  { state, run, settled_at: settledAt, picked_at: pickedAt }: RowStatus,
  output: Output,
  now: number,
): string {
  const style = stateStyle(state)
  const words = style === null ? formatState(state) : output.paint(style, formatState(state))
  if (settledAt === null)
    return `${words}${run === null ? '' : ` in run ${run}`}, picked ${relativeTime(pickedAt, now)}`
  // `forget` suppresses a row and leaves the run that finished it before.
  const by = run === null || state === Row.suppressed ? '' : ` by run ${run}`
  return `${words}${by}, ${relativeTime(settledAt, now)}`
}

function renderValues({ row, source }: RowHistory, output: Output): string[] {
  const filled: Readonly<Record<string, string>> = row.filled_inputs
  const inputs = Object.entries(row.inputs).map(([name, value]) => ({
    name,
    value: formatValue(filled[name] ?? value),
    from: name in filled ? 'input, filled by Fillrate: not used' : 'input',
  }))
  const columns = row.columns.map((column) => ({
    name: column.column,
    value: formatValue(column.value),
    from: describeOrigin(column, source),
  }))
  return renderTable(
    output,
    [...inputs, ...columns],
    [
      { title: 'column', text: ({ name }) => name, minColumns: 8 },
      { title: 'value', text: ({ value }) => value, minColumns: 10 },
      { title: 'written by', text: ({ from }) => from },
    ],
    { indent: 2 },
  )
}

const renderLookups = (history: RowHistory, output: Output, now: number): string[] =>
  renderFields(
    output,
    listLookupFacts(history, now).map(([label, text, more]): Field => {
      return more === undefined ? [label, sanitize(text)] : [label, sanitize(text), sanitize(more)]
    }),
  )

/** Columns of a value; `--json` has the whole. */
const MAX_VALUE_LENGTH = 200

/** Each output with the record's value, and whether it was written or why not. */
function renderRecord({ fields }: RowHistory, output: Output): string[] {
  const list = fields.map(({ service, field, column, value, result }): Field => {
    const shown = truncate(formatValue(value), MAX_VALUE_LENGTH)
    const from = compact([service ?? null, field !== column && `field ${field}`])
    return [column, shown, [...from, result].join('; ')]
  })
  return renderFields(output, list)
}

const renderChanges = ({ changes }: RowHistory, output: Output, now: number): string[] =>
  renderCellGroups(output, changes, (change) => renderText(output, describeChange(change, now)), [
    { title: 'column', text: (cell) => cell.column, minColumns: 8 },
    { title: 'before', text: (cell) => formatValue(cell.before), minColumns: 8 },
    { title: 'after', text: (cell) => formatValue(cell.after), minColumns: 8 },
  ])

function renderNextStep({ next }: RowHistory, output: Output, now: number): string[] {
  const when = next.at === null ? '' : `${relativeTime(next.at, now)} (${formatTime(next.at)}): `
  return renderText(output, `${when}${next.what}`)
}
