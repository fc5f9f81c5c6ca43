import { pluralize } from '../../../util/format.ts'
import type {
  LookupSummary,
  RowChange,
  ColumnState,
  ExplainedField,
  RowHistory,
} from '../../../actions/explain/row-history.ts'
import { Row } from '../../../domain/row.ts'
import type { InputName } from '../../../domain/mapping.ts'
import { withCode } from './failures.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import { scrollable, card, definitionList, stateBadge, timeAgo, stateLabel } from '../components.ts'

/** The history of one row, as in `fillrate explain`. */
export function rowPage(history: RowHistory, now: number): Html {
  const { source, key, table, state, row } = history
  return html`<h1><span class="sub">${source} · ${table}</span> ${key}</h1>
    <div class="grid">
      ${card('state', 'Status', [
        html`<p>
          ${state === null ? 'Never picked.' : [stateBadge(state.state), ' ', state.settled_at === null ? ['picked ', timeAgo(state.picked_at, now)] : timeAgo(state.settled_at, now), state.run !== null && state.state !== Row.suppressed && html` by <a href="/runs/${state.run}">run ${state.run}</a>`]}
        </p>`,
        html`<ul class="notes">
          ${listNotes(history).map((note) => html`<li>${note}</li>`)}
        </ul>`,
      ])}
      ${card('next', 'Next step', html`<p>${history.next.at !== null && [timeAgo(history.next.at, now), ': ']}${withCode(history.next.what)}</p>`)}
      ${card('values', 'Current values', row.columns.length === 0 ? html`<p class="empty">The row is deleted.</p>` : [inputsTable(row), columnsTable(row.columns, history.source)])}
      ${card('lookup', 'Lookup', lookupSection(history, now))}
      ${history.fields.length > 0 && card('record', 'Enrichment record', fieldsTable(history.fields))}
      ${card('changes', 'Changes', history.changes.length === 0 ? html`<p class="empty">Fillrate has not written to this row.</p>` : history.changes.map((change) => changeTable(change, now)))}
    </div>`
}

function listNotes({ state, row }: RowHistory): string[] {
  return [
    ...(state?.reason ? [state.reason] : []),
    ...(row.exists ? [] : ['the row is deleted']),
    ...(row.excluded_by === null ? [] : [`excluded from the source by its ${row.excluded_by}`]),
    ...(row.join_count > 1 ? [`the joins return ${row.join_count} rows for this key instead of one`] : []),
    ...(row.problem === null ? [] : [`a source expression fails on this row: ${row.problem}`]),
    ...(state?.inputs_changed ? ['its inputs have changed since then'] : []),
    ...row.input_notes
      .map((one) => `${one.input} not usable: ${one.reason}`)
      .filter((text) => state?.reason !== text),
  ]
}

/** Formats a value; blank values are named. */
function formatValue(given: unknown): HtmlPart {
  if (given === null || given === undefined || given === '') return html`<i>blank</i>`
  if (typeof given === 'string' && given.trim() === '') return html`<i>white space</i>`
  return typeof given === 'string' ? given : JSON.stringify(given)
}

const inputsTable = ({ inputs, filled_inputs: filled }: RowHistory['row']): Html =>
  html`<table class="values">
    <caption>
      Inputs
    </caption>
    <tbody>
      ${Object.entries(inputs).map(
        ([name, given]) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>
              ${name in filled ? [formatValue(filled[name as InputName]), ' (filled by Fillrate: not used)'] : formatValue(given)}
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`

const columnsTable = (columns: readonly ColumnState[], source: string): Html =>
  scrollable(
    'Columns',
    html`<table class="values">
      <caption>
        Columns that Fillrate may fill
      </caption>
      <thead>
        <tr>
          <th scope="col">column</th>
          <th scope="col">value</th>
          <th scope="col">last written by</th>
        </tr>
      </thead>
      <tbody>
        ${columns.map(
          (column) =>
            html`<tr>
              <th scope="row">${column.column}</th>
              <td>${formatValue(column.value)}</td>
              <td>${describeOwner(column, source)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

function describeOwner(
  { policy, blank, written_by_fillrate, written_by_source: writer, written_by: by }: ColumnState,
  source: string,
): string {
  if (blank) return policy === null ? '' : 'blank'
  if (written_by_fillrate)
    return `${by === null ? 'Fillrate' : `run ${by}`}${writer === source ? '' : `, source ${writer}`}`
  if (policy === null) return ''
  return policy === 'always' ? 'others, overwritten by policy' : 'others, protected'
}

function lookupSection(history: RowHistory, now: number): HtmlPart {
  const { lookup, missed_lookups, job, deliveries, row } = history
  const lines: [string, HtmlPart][] = missed_lookups.map((one): [string, HtmlPart] => [
    'Earlier lookup',
    [describeLookup(one), ': ', describeAnswer(one, now)],
  ])
  if (lookup === null)
    lines.push([
      'Lookup',
      row.lookup_request === null
        ? row.is_suppressed
          ? 'none: its identifier was erased'
          : 'nothing'
        : ['nothing yet; it would be ', describeLookup(row.lookup_request)],
    ])
  else
    lines.push(
      ['Lookup', [describeLookup(lookup), html`<br />`, describeCalls(lookup, now)]],
      ['Result', describeAnswer(lookup, now)],
    )
  if (job !== null)
    lines.push([
      'Job',
      [
        job.job_id ?? job.key,
        `, ${pluralize(job.size, 'email')} `,
        stateBadge(job.state),
        ' ',
        job.finished_at === null ? ['due ', timeAgo(job.deadline_at, now)] : timeAgo(job.finished_at, now),
        job.reason !== null && `, ${job.reason}`,
      ],
    ])
  for (const one of deliveries)
    lines.push([
      'Delivery',
      [
        html`<code>${one.event_id}</code> `,
        stateBadge(one.state),
        ' received ',
        timeAgo(one.received_at, now),
      ],
    ])
  return definitionList(lines)
}

const describeLookup = ({ kind, input }: { kind: string; input: Readonly<Record<string, string>> }): string =>
  `by ${kind === 'name_company' ? 'name and company' : stateLabel(kind)}: ${Object.values(input).join(', ')}`

function describeCalls(
  { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt }: LookupSummary,
  now: number,
): HtmlPart {
  if (at === null) return 'not requested yet'
  return [
    attempts > 0 ? `${pluralize(attempts, 'call')}, ` : job === null ? '' : 'in a job, ',
    'requested ',
    timeAgo(at, now),
    run !== null && html` by <a href="/runs/${run}">run ${run}</a>`,
    inDoubt > 0 && `, ${pluralize(inDoubt, 'call')} in doubt`,
    rows > 1 && `, shared by ${pluralize(rows, 'row')}`,
  ]
}

function describeAnswer(lookup: LookupSummary, now: number): HtmlPart {
  const { state, reason, confidence, resolved_at: at, refresh_at: due, not_before: later } = lookup
  return [
    stateBadge(state),
    confidence !== null && ` confidence ${confidence}`,
    reason !== null && ` ${reason}`,
    at !== null && [' ', timeAgo(at, now)],
    later !== null && [', not before ', timeAgo(later, now)],
    due !== null && [', refresh due ', timeAgo(due, now)],
  ]
}

const fieldsTable = (fields: readonly ExplainedField[]): Html =>
  scrollable(
    'Record',
    html`<table class="values">
      <thead>
        <tr>
          <th scope="col">field</th>
          <th scope="col">value</th>
          <th scope="col">column</th>
          <th scope="col">result</th>
        </tr>
      </thead>
      <tbody>
        ${fields.map(
          (one) =>
            html`<tr>
              <th scope="row">${one.field}</th>
              <td>${formatValue(one.value)}</td>
              <td>${one.column}</td>
              <td>${withCode(one.result)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

function changeTable({ run, written_at: at, undoes, undone_by: by, cells }: RowChange, now: number): Html {
  return html`<table class="values">
    <caption>
      ${run === null ? 'A deleted run' : html`<a href="/runs/${run}">Run ${run}</a>`},
      ${timeAgo(at, now)}${
        undoes !== null && `, undoes run ${undoes}`
      }${by !== null && `, undone by run ${by}`}
    </caption>
    <thead>
      <tr>
        <th scope="col">column</th>
        <th scope="col">before</th>
        <th scope="col">after</th>
      </tr>
    </thead>
    <tbody>
      ${cells.map(
        (cell) =>
          html`<tr>
            <th scope="row">${cell.column}</th>
            <td>${formatValue(cell.before)}</td>
            <td>${cell.undone ? html`<s>${formatValue(cell.after)}</s>` : formatValue(cell.after)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`
}
