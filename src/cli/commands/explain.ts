import { createParser, defineCommand } from '../command.ts'
import { useApp } from '../settings.ts'
import { POLICY_RULES } from '../../domain/mapping.ts'
import { describeExclusion } from '../../actions/explain/next-step.ts'
import type {
  ColumnState,
  LookupSummary,
  RowChange,
  RowHistory,
  RowStatus,
} from '../../actions/explain/row-history.ts'
import { Row, formatState } from '../../domain/row.ts'
import { type Output, truncate } from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import {
  type Field,
  compact,
  formatValue,
  renderFields,
  renderSection,
  renderText,
  stateStyle,
} from '../views/layout.ts'
import { renderCellGroups, renderTable } from '../views/table.ts'
import { formatTime, pluralize, relativeTime } from '../../util/format.ts'

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

function renderState({ state, row }: RowHistory, output: Output, now: number): string[] {
  const { paint } = output
  const { join_count: joined, problem } = row
  const exclusion = describeExclusion(row)
  const reason = state?.reason ?? ''
  const unused = row.input_notes
    .map((note) => `${note.input}: ${note.reason}`)
    .filter((note) => !reason.includes(note))
  const lines = compact([
    state === null ? 'never picked' : formatRowState(state, output, now),
    reason !== '' && sanitize(reason),
    unused.length > 0 && sanitize(`not looked up by: ${unused.join('; ')}`),
    !row.exists && paint('warn', 'the row is deleted'),
    exclusion !== null && paint('warn', exclusion),
    joined > 1 && paint('bad', `the joins return ${joined} rows for this key; expected one`),
    problem !== null && paint('bad', `an expression of the source fails for this row: ${problem}`),
    state?.inputs_changed === true && 'its inputs have changed since',
  ])
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
      { title: 'column', text: (one) => one.name, minColumns: 8 },
      { title: 'value', text: (one) => one.value, minColumns: 10 },
      { title: 'written by', text: (one) => one.from },
    ],
    { indent: 2 },
  )
}

function describeOrigin(
  { policy, blank, written_by_fillrate, written_by_source: writer, written_by: by, service }: ColumnState,
  source: string,
): string {
  if (blank) return policy === null ? '' : 'blank'
  if (written_by_fillrate)
    return compact([
      by === null ? 'Fillrate' : `run ${by}`,
      service ?? null,
      writer !== source && `source ${writer}`,
    ]).join(', ')
  if (policy === null) return ''
  if (written_by_fillrate === null) return 'not known any more: erased'
  return POLICY_RULES[policy].replacesOthers ? 'not Fillrate, overwritten' : 'not Fillrate, protected'
}

function renderLookups(
  { lookup, missed_lookups, job, deliveries, row }: RowHistory,
  output: Output,
  now: number,
): string[] {
  const malformed = lookup?.malformed_response ?? null
  const next = row.is_suppressed
    ? 'none: its identifier was erased and is never looked up again'
    : row.excluded_by !== null
      ? 'none while it is excluded'
      : row.lookup_request === null
        ? 'no valid input'
        : `not yet; next lookup ${describeRequest(row.lookup_request)}`
  return renderFields(output, [
    ...missed_lookups.map((one): Field => ['Before', describeWithService(one), describeResult(one, now)]),
    lookup === null && row.exists && ['Lookup', next],
    lookup && ['Lookup', describeWithService(lookup), describeCalls(lookup, now)],
    lookup && ['Result', describeResult(lookup, now)],
    malformed && ['Malformed', ...describeMalformed(malformed, now)],
    job && [
      'Job',
      `${job.job_id ?? job.key}, ${pluralize(job.size, 'email')}`,
      compact([formatState(job.state), formatJobEnd(job, now), job.reason]).join(', '),
    ],
    ...deliveries.map(({ event_id: id, state, received_at: at }): Field => {
      return ['Delivery', sanitize(id), `${formatState(state)}, received ${relativeTime(at, now)}`]
    }),
  ])
}

const describeRequest = ({
  kind,
  input,
}: {
  kind: string
  input: Readonly<Record<string, string>>
}): string =>
  `by ${kind === 'name_company' ? 'name and company' : kind}: ${sanitize(Object.values(input).join(', '))}`

/** With its service, if the database knows several. */
const describeWithService = (lookup: LookupSummary): string =>
  `${lookup.service === undefined ? '' : `${lookup.service} `}${describeRequest(lookup)}`

function describeCalls(lookup: LookupSummary, now: number): string {
  const { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt } = lookup
  const calls = attempts > 0 ? pluralize(attempts, 'call') : job !== null && 'in a job'
  return compact([
    at !== null && calls,
    at === null ? 'not requested yet' : `requested ${relativeTime(at, now)}`,
    run !== null && `by run ${run}`,
    inDoubt > 0 && `${pluralize(inDoubt, 'call')} in doubt`,
    rows > 1 && `shared by ${pluralize(rows, 'row')}`,
  ]).join(', ')
}

function describeResult(lookup: LookupSummary, now: number): string {
  const { state, reason, confidence, resolved_at: at, refresh_at: due, not_before: later } = lookup
  const { went_on: why } = lookup
  const parts = compact([
    formatState(state),
    confidence !== null && `confidence ${confidence}`,
    reason,
    at && relativeTime(at, now),
    later && `not before ${relativeTime(later, now)}`,
    due && (due.getTime() <= now ? 'due' : `due for refresh ${relativeTime(due, now)}`),
    why !== undefined && `went on because ${why}`,
  ])
  return sanitize(parts.join(', '))
}

/** Columns of a value; `--json` has the whole. */
const MAX_VALUE_LENGTH = 200

/** Characters shown; `--json` has the stored body. */
const EXCERPT_LENGTH = 200

function describeMalformed(
  response: NonNullable<LookupSummary['malformed_response']>,
  now: number,
): [text: string, more: string] {
  const body = sanitize(response.body.replaceAll(/\s+/g, ' ').trim())
  const shown = body === '' ? 'empty body' : truncate(body, EXCERPT_LENGTH)
  return [shown, `HTTP ${response.status} ${relativeTime(new Date(response.received_at), now)}`]
}

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

/** `run 5, 2 min ago, undo of run 3, undone by run 6 except title`. */
function describeChange(
  { run, service, written_at: at, undoes, undone_by: by, cells }: RowChange,
  now: number,
): string {
  const left = cells.filter((cell) => !cell.undone).map((cell) => cell.column)
  return compact([
    run === null ? 'a deleted run' : `run ${run}`,
    service !== undefined && `${undoes === null ? 'from' : 'of'} ${service}`,
    relativeTime(at, now),
    undoes !== null && `undo of run ${undoes}`,
    by !== null && `undone by run ${by}${left.length === 0 ? '' : ` except ${left.join(', ')}`}`,
  ]).join(', ')
}

function renderNextStep({ next }: RowHistory, output: Output, now: number): string[] {
  const when = next.at === null ? '' : `${relativeTime(next.at, now)} (${formatTime(next.at)}): `
  return renderText(output, `${when}${next.what}`)
}

/** When the job finished, or its deadline. */
const formatJobEnd = (
  job: { readonly finished_at: Date | null; readonly deadline_at: Date },
  now: number,
): string =>
  job.finished_at === null ? `due ${relativeTime(job.deadline_at, now)}` : relativeTime(job.finished_at, now)
