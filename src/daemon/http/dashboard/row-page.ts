import { counted } from '../../../domain/numbers.ts'
import type { AskedLookup, Change, Column, Field, Story } from '../../../pipeline/explain/story.ts'
import { code } from './failures.ts'
import { html, type Html, type Part } from './html.ts'
import { scroll, section, stateBadge, when, words } from './parts.ts'

/** One row's story, as `fillrate explain` tells it. */
export function rowPage(story: Story, now: number): Html {
  const { source, key, table, state, row } = story
  return html`<h1><span class="sub">${source} · ${table}</span> ${key}</h1>
    <div class="grid">
      ${section('state', 'Where it is', [
        html`<p>
          ${state === null ? 'It was never picked.' : [stateBadge(state.state), ' ', state.settled_at === null ? ['picked ', when(state.picked_at, now)] : when(state.settled_at, now), state.run !== null && html` by <a href="/runs/${state.run}">run ${state.run}</a>`]}
        </p>`,
        html`<ul class="notes">
          ${notesOf(story).map((note) => html`<li>${note}</li>`)}
        </ul>`,
      ])}
      ${section('next', 'What comes next', html`<p>${story.next.at !== null && [when(story.next.at, now), ': ']}${code(story.next.what)}</p>`)}
      ${section('values', 'What it holds', row.columns.length === 0 ? html`<p class="empty">The row is deleted.</p>` : [inputsTable(row.inputs), columnsTable(row.columns)])}
      ${section('asked', 'What was asked and answered', asked(story, now))}
      ${story.fields.length > 0 && section('record', 'What its record holds', fieldsTable(story.fields))}
      ${section('changes', 'Changes', story.changes.length === 0 ? html`<p class="empty">Fillrate has written nothing into it.</p>` : story.changes.map((change) => changeTable(change, now)))}
    </div>`
}

function notesOf({ state, row }: Story): string[] {
  const cells = listIn(state?.notes?.['cells']).filter((one) => one['reason'] !== 'absent')
  return [
    ...(state?.reason ? [state.reason] : []),
    ...(row.exists ? [] : ['the row is deleted']),
    ...(row.excluded_by === null ? [] : [`left out of the source by its ${row.excluded_by}`]),
    ...(row.join_count > 1
      ? [`the joins give ${row.join_count} rows for this key, and only one can be right`]
      : []),
    ...(row.problem === null ? [] : [`an expression of the source fails on it: ${row.problem}`]),
    ...(state?.inputs_changed ? ['its inputs have changed since'] : []),
    ...cells
      .map((one) => `${String(one['column'])}: ${String(one['reason'])}`)
      .filter((text) => !(state?.reason ?? '').includes(text))
      .map((text) => `not written: ${text}`),
    ...row.input_notes
      .map((one) => `not asked by ${one.input}: ${one.reason}`)
      .filter((text) => state?.reason !== text),
  ]
}

const listIn = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value)
    ? value.filter((one): one is Record<string, unknown> => typeof one === 'object' && one !== null)
    : []

/** A value as a person reads it: blank ones are told. */
function value(given: unknown): Part {
  if (given === null || given === undefined || given === '') return html`<i>blank</i>`
  if (typeof given === 'string' && given.trim() === '') return html`<i>white space</i>`
  return typeof given === 'string' ? given : JSON.stringify(given)
}

const inputsTable = (inputs: Story['row']['inputs']): Html =>
  html`<table class="values">
    <caption>
      Inputs
    </caption>
    <tbody>
      ${Object.entries(inputs).map(
        ([name, given]) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>${value(given)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`

const columnsTable = (columns: readonly Column[]): Html =>
  scroll(
    'Columns',
    html`<table class="values">
      <caption>
        Columns that Fillrate may fill
      </caption>
      <thead>
        <tr>
          <th scope="col">column</th>
          <th scope="col">value</th>
          <th scope="col">whose</th>
        </tr>
      </thead>
      <tbody>
        ${columns.map(
          (column) =>
            html`<tr>
              <th scope="row">${column.column}</th>
              <td>${value(column.value)}</td>
              <td>${whose(column)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

function whose({ policy, blank, written_by_fillrate, written_by: by }: Column): string {
  if (blank) return policy === null ? '' : 'blank'
  if (written_by_fillrate) return by === null ? 'written by Fillrate' : `written by run ${by}`
  if (policy === null) return ''
  return policy === 'always' ? 'not ours, written over' : 'not ours, stays'
}

function asked(story: Story, now: number): Part {
  const { lookup, missed_lookups, job, deliveries, row } = story
  const lines: [string, Part][] = missed_lookups.map((one): [string, Part] => [
    'Before',
    [inWords(one), ': ', answer(one, now)],
  ])
  if (lookup === null)
    lines.push([
      'Asked',
      row.lookup_request === null ? 'nothing' : ['nothing yet; it would be ', inWords(row.lookup_request)],
    ])
  else
    lines.push(
      ['Asked', [inWords(lookup), html`<br />`, calls(lookup, now)]],
      ['Answer', answer(lookup, now)],
    )
  if (job !== null)
    lines.push([
      'Job',
      [
        job.job_id ?? job.id,
        `, ${counted(job.size, 'email')} `,
        stateBadge(job.state),
        ' ',
        job.finished_at === null
          ? ['at the latest ', when(job.deadline_at, now)]
          : when(job.finished_at, now),
        job.reason !== null && `, ${job.reason}`,
      ],
    ])
  for (const one of deliveries)
    lines.push([
      'Delivery',
      [html`<code>${one.event_id}</code> `, stateBadge(one.state), ' received ', when(one.received_at, now)],
    ])
  return html`<dl class="fields">
    ${lines.map(
      ([name, text]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${text}</dd>
        </div>`,
    )}
  </dl>`
}

const inWords = ({ kind, input }: { kind: string; input: Readonly<Record<string, string>> }): string =>
  `by ${kind === 'name_company' ? 'name and company' : words(kind)}: ${Object.values(input).join(', ')}`

function calls(
  { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt }: AskedLookup,
  now: number,
): Part {
  if (at === null) return 'not asked yet'
  return [
    attempts > 0 ? `${counted(attempts, 'call')}, ` : job === null ? '' : 'in a job, ',
    'asked ',
    when(at, now),
    run !== null && html` by <a href="/runs/${run}">run ${run}</a>`,
    inDoubt > 0 && `, ${counted(inDoubt, 'call')} in doubt`,
    rows > 1 && `, shared by ${counted(rows, 'row')}`,
  ]
}

function answer(lookup: AskedLookup, now: number): Part {
  const { state, reason, confidence, resolved_at: at, refresh_at: due, not_before: later } = lookup
  return [
    stateBadge(state),
    confidence !== null && ` confidence ${confidence}`,
    reason !== null && ` ${reason}`,
    at !== null && [' ', when(at, now)],
    later !== null && [', not before ', when(later, now)],
    due !== null && [', due again ', when(due, now)],
  ]
}

const fieldsTable = (fields: readonly Field[]): Html =>
  scroll(
    'Record',
    html`<table class="values">
      <thead>
        <tr>
          <th scope="col">field</th>
          <th scope="col">value</th>
          <th scope="col">for</th>
          <th scope="col">not written</th>
        </tr>
      </thead>
      <tbody>
        ${fields.map(
          (one) =>
            html`<tr>
              <th scope="row">${one.field}</th>
              <td>${value(one.value)}</td>
              <td>${one.column}</td>
              <td>${one.skipped === 'absent' ? '' : words(one.skipped ?? '')}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

function changeTable({ run, written_at: at, undoes, undone_by: by, cells }: Change, now: number): Html {
  return html`<table class="values">
    <caption>
      ${run === null ? 'A run that is no longer kept' : html`<a href="/runs/${run}">Run ${run}</a>`},
      ${when(at, now)}${
        undoes !== null && `, takes back run ${undoes}`
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
            <td>${value(cell.before)}</td>
            <td>${cell.undone ? html`<s>${value(cell.after)}</s>` : value(cell.after)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`
}
