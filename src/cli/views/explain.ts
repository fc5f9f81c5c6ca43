import type {
  ColumnState,
  LookupSummary,
  RowChange,
  RowHistory,
  RowStatus,
} from '../../actions/explain/row-history.ts'
import { type Output, truncate, wrapText } from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import {
  type LabeledText,
  formatState,
  formatValue,
  renderFields,
  renderTable,
  stateStyle,
} from './layout.ts'
import { formatTime, pluralize, relativeTime } from '../../util/format.ts'

/** One row's story: what it is, what was asked and answered, what was written, and what comes next. */
export function renderRowHistory(story: RowHistory, output: Output, now: number): string[] {
  const { paint } = output
  const part = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0 ? [] : ['', paint('heading', title), ...lines]
  return [
    `${paint('heading', sanitize(`${story.source} ${story.key}`))}  ${paint('quiet', `a row of ${story.table}`)}`,
    ...stateLines(story, output, now),
    ...part('The row now', rowLines(story, output)),
    ...part('Asked and answered', askedLines(story, output, now)),
    ...part('The record', recordLines(story, output)),
    ...part('What Fillrate wrote', changeLines(story, output, now)),
    ...part('What comes next', nextLines(story, output, now)),
  ]
}

const indent = (lines: readonly string[]): string[] => lines.map((line) => (line === '' ? '' : `  ${line}`))

function stateLines({ state, row }: RowHistory, output: Output, now: number): string[] {
  const { paint, textColumns } = output
  const lines = state === null ? ['never picked'] : [stateLine(state, output, now), ...notesOf(state)]
  if (!row.exists) lines.push(paint('warn', 'the row is deleted'))
  if (row.excluded_by !== null) lines.push(paint('warn', `left out of the source by its ${row.excluded_by}`))
  if (row.join_count > 1)
    lines.push(paint('bad', `the joins give ${row.join_count} rows for this key, and only one can be right`))
  if (row.problem !== null)
    lines.push(paint('bad', `an expression of the source fails on it: ${row.problem}`))
  if (state?.inputs_changed) lines.push('its inputs have changed since')
  return indent(lines.flatMap((line) => wrapText(line, textColumns - 2)))
}

function stateLine(
  { state, run, settled_at: settledAt, picked_at: pickedAt }: RowStatus,
  output: Output,
  now: number,
): string {
  const style = stateStyle(state)
  const words = style === null ? formatState(state) : output.paint(style, formatState(state))
  if (settledAt === null)
    return `${words}${run === null ? '' : ` in run ${run}`}, picked ${relativeTime(pickedAt, now)}`
  return `${words}${run === null ? '' : ` by run ${run}`}, ${relativeTime(settledAt, now)}`
}

/** The reason, and what was left aside. */
function notesOf({ reason, notes }: RowStatus): string[] {
  // What the record lacks is seen in the record.
  const cells = listIn(notes?.['cells'])
    .filter((one) => one['reason'] !== 'absent')
    .map((one) => `${one['column']}: ${one['reason']}`)
  const inputs = listIn(notes?.['inputs']).map((one) => `${one['input']}: ${one['reason']}`)
  const told = reason ?? ''
  return [
    ...(told === '' ? [] : [told]),
    ...(cells.every((cell) => told.includes(cell)) ? [] : [`not written: ${cells.join('; ')}`]),
    ...(inputs.every((input) => told.includes(input)) ? [] : [`not asked by: ${inputs.join('; ')}`]),
  ].map(sanitize)
}

const listIn = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'object' && one !== null) : []

function rowLines({ row }: RowHistory, output: Output): string[] {
  const inputs = Object.entries(row.inputs).map(([name, value]) => ({
    name,
    value: formatValue(value),
    from: 'input',
  }))
  const columns = row.columns.map((column) => ({
    name: column.column,
    value: formatValue(column.value),
    from: originOf(column),
  }))
  if (inputs.length + columns.length === 0) return []
  return indent(
    renderTable(
      [...inputs, ...columns],
      [
        { title: 'column', text: (one) => one.name, least: 8 },
        { title: 'value', text: (one) => one.value, least: 10 },
        { title: 'whose', text: (one) => one.from },
      ],
      narrower(output),
    ),
  )
}

function originOf({ policy, blank, written_by_fillrate, written_by: by }: ColumnState): string {
  if (blank) return policy === null ? '' : 'blank'
  if (written_by_fillrate) return by === null ? 'written by Fillrate' : `written by run ${by}`
  if (policy === null) return ''
  return policy === 'always' ? 'not ours, written over' : 'not ours, stays'
}

function askedLines(
  { lookup, missed_lookups, job, deliveries, row }: RowHistory,
  output: Output,
  now: number,
): string[] {
  const list: LabeledText[] = missed_lookups.map((one): LabeledText => [
    'Before',
    question(one),
    answer(one, now),
  ])
  if (lookup === null) {
    const would =
      row.lookup_request === null ? 'nothing' : `nothing yet; it would be ${inWords(row.lookup_request)}`
    const notes = row.input_notes.map((note) => `${note.input}: ${note.reason}`).join('; ')
    if (row.exists) list.push(['Asked', would, notes])
  } else {
    list.push(['Asked', question(lookup), callsOf(lookup, now)], ['Answer', answer(lookup, now)])
    if (lookup.malformed_response !== null)
      list.push(['No record', ...keptWords(lookup.malformed_response, now)])
  }
  if (job !== null) {
    const ended =
      job.finished_at === null
        ? `at the latest ${relativeTime(job.deadline_at, now)}`
        : relativeTime(job.finished_at, now)
    list.push([
      'Job',
      `${job.job_id ?? job.key}, ${pluralize(job.size, 'email')}`,
      [formatState(job.state), ended, ...(job.reason === null ? [] : [job.reason])].join(', '),
    ])
  }
  for (const one of deliveries)
    list.push([
      'Delivery',
      sanitize(one.event_id),
      `${formatState(one.state)}, received ${relativeTime(one.received_at, now)}`,
    ])
  return list.length === 0 ? [] : renderFields(list, output)
}

const inWords = ({ kind, input }: { kind: string; input: Readonly<Record<string, string>> }): string =>
  `by ${kind === 'name_company' ? 'name and company' : kind}: ${sanitize(Object.values(input).join(', '))}`

const question = (lookup: LookupSummary): string => inWords(lookup)

function callsOf(lookup: LookupSummary, now: number): string {
  const { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt } = lookup
  const tries = attempts > 0 ? [pluralize(attempts, 'call')] : job === null ? [] : ['in a job']
  return [
    ...(at === null ? ['not asked yet'] : [...tries, `asked ${relativeTime(at, now)}`]),
    ...(run === null ? [] : [`by run ${run}`]),
    ...(inDoubt > 0 ? [`${pluralize(inDoubt, 'call')} in doubt`] : []),
    ...(rows > 1 ? [`shared by ${pluralize(rows, 'row')}`] : []),
  ].join(', ')
}

function answer(lookup: LookupSummary, now: number): string {
  const { state, reason, confidence, resolved_at: at, refresh_at: due, not_before: later } = lookup
  return sanitize(
    [
      formatState(state),
      ...(confidence === null ? [] : [`confidence ${confidence}`]),
      ...(reason === null ? [] : [reason]),
      ...(at === null ? [] : [relativeTime(at, now)]),
      ...(later === null ? [] : [`not before ${relativeTime(later, now)}`]),
      ...(due === null ? [] : [due.getTime() <= now ? 'due' : `due again ${relativeTime(due, now)}`]),
    ].join(', '),
  )
}

/** Characters of it that are shown; `--json` has all that is kept. */
const EXCERPT = 200

function keptWords(
  kept: NonNullable<LookupSummary['malformed_response']>,
  now: number,
): [text: string, more: string] {
  const body = sanitize(kept.body.replaceAll(/\s+/g, ' ').trim())
  const shown = body === '' ? 'nothing' : truncate(body, EXCERPT)
  return [shown, `answered with ${kept.status} ${relativeTime(new Date(kept.received_at), now)}`]
}

function recordLines({ fields: list }: RowHistory, output: Output): string[] {
  if (list.length === 0) return []
  return indent(
    renderTable(
      list,
      [
        { title: 'field', text: (one) => one.field },
        { title: 'value', text: (one) => formatValue(one.value), least: 10 },
        { title: 'for', text: (one) => one.column, least: 8 },
        {
          title: '',
          text: (one) => (one.skipped === null || one.skipped === 'absent' ? '' : formatState(one.skipped)),
        },
      ],
      narrower(output),
    ),
  )
}

function changeLines({ changes }: RowHistory, output: Output, now: number): string[] {
  const cells = changes.flatMap((change) => change.cells)
  if (cells.length === 0) return []
  const [head = '', ...body] = renderTable(
    cells,
    [
      { title: 'column', text: (cell) => cell.column, least: 8 },
      { title: 'before', text: (cell) => formatValue(cell.before), least: 8 },
      { title: 'after', text: (cell) => formatValue(cell.after), least: 8 },
    ],
    narrower(output, 4),
  )
  return indent([
    `  ${head.trimStart()}`,
    ...changes.flatMap((change) => [
      ...wrapText(aboutChange(change, now), output.textColumns - 2),
      ...body.splice(0, change.cells.length).map((line) => `  ${line}`),
    ]),
  ])
}

/** `run 5, 2 min ago, takes back run 3, undone by run 6 but for title`. */
function aboutChange({ run, written_at: at, undoes, undone_by: by, cells }: RowChange, now: number): string {
  const left = cells.filter((cell) => !cell.undone).map((cell) => cell.column)
  return [
    run === null ? 'a run that is no longer kept' : `run ${run}`,
    relativeTime(at, now),
    ...(undoes === null ? [] : [`takes back run ${undoes}`]),
    ...(by === null ? [] : [`undone by run ${by}${left.length === 0 ? '' : ` but for ${left.join(', ')}`}`]),
  ].join(', ')
}

function nextLines({ next }: RowHistory, output: Output, now: number): string[] {
  const when = next.at === null ? '' : `${relativeTime(next.at, now)} (${formatTime(next.at)}): `
  return indent(wrapText(`${when}${next.what}`, output.textColumns - 2))
}

/** For a table that stands some columns in. */
const narrower = (output: Output, indented = 2): Pick<Output, 'columns' | 'paint'> => ({
  paint: output.paint,
  columns: output.columns === null ? null : output.columns - indented,
})
