import { count, duration, percent } from '../../../domain/numbers.ts'
import { ROW_STATES, type RowState } from '../../../domain/row.ts'
import type { StoredRun } from '../../../store/runs.ts'
import type { StateCounts } from '../../../store/rows.ts'
import { funnelTable } from './funnel.ts'
import { html, type Html, type Part } from './html.ts'
import { section, stateBadge, when } from './parts.ts'
import { kindOf } from './runs.ts'
import { totalIn } from './totals.ts'

/** One run and its numbers. @param live its rows so far, of one that is under way */
export function runPage(run: StoredRun, live: StateCounts | null, now: number): Html {
  const states = live ?? statesIn(run.totals)
  const took = (run.finished_at?.getTime() ?? now) - run.started_at.getTime()
  const { options } = run
  return html`<h1>Run ${run.id} ${stateBadge(run.state)}</h1>
    <div class="grid">
      ${section(
        'about',
        'The run',
        list([
          ['Kind', kindOf({ ...run, alive: live !== null, states: live })],
          ['Sources', run.sources.join(', ') || 'none'],
          ['Started', when(run.started_at, now)],
          ['Took', duration(took)],
          ['Budget', options.budget === null ? 'unlimited' : `${count(options.budget)} lookups`],
          ['Limit', options.limit === null ? null : `${count(options.limit)} rows of each source`],
          ['Only where', options.where === null ? null : html`<code>${options.where}</code>`],
          ['Route', options.route],
          ['Reason', run.reason],
        ]),
      )}
      ${states !== null && section('rows', 'Rows', funnelTable(options.dry === true ? 'What a run would have made of them' : 'From picked to enriched', states))}
      ${section('numbers', 'Calls and cells', run.totals === null ? html`<p class="empty">Told when the run ends.</p>` : list(NUMBERS.map(([name, part, field]) => [name, numberOf(run.totals, part, field)])))}
    </div>`
}

const NUMBERS: ReadonlyArray<readonly [name: string, part: string, field: string]> = [
  ['Distinct lookups', 'lookups', 'distinct'],
  ['answered before', 'lookups', 'stored'],
  ['asked', 'lookups', 'asked'],
  ['found', 'lookups', 'found'],
  ['not found', 'lookups', 'not_found'],
  ['rejected', 'lookups', 'rejected'],
  ['failed', 'lookups', 'failed'],
  ['in doubt', 'lookups', 'in_doubt'],
  ['Calls for a person', 'requests', 'person'],
  ['Calls for a company', 'requests', 'company'],
  ['Calls with a job', 'requests', 'bulk'],
  ['to be tried again', 'requests', 'retried'],
  ['throttled (429)', 'requests', 'throttled'],
  ['Used of the quota', 'rate', 'utilisation'],
  ['Jobs submitted', 'jobs', 'submitted'],
  ['completed', 'jobs', 'completed'],
  ['failed', 'jobs', 'failed'],
  ['expired', 'jobs', 'expired'],
  ['in doubt', 'jobs', 'in_doubt'],
  ['waiting', 'jobs', 'waiting'],
  ['Cells written', 'cells', 'written'],
  ['kept as they were', 'cells', 'kept'],
  ['did not fit', 'cells', 'conflicts'],
]

function numberOf(totals: unknown, part: string, field: string): Part {
  const value = totalIn(totals, part, field)
  if (value === null || value === 0) return null
  return field === 'utilisation' ? percent(value) : count(value)
}

function statesIn(totals: unknown): Record<RowState, number> | null {
  if (totalIn(totals, 'rows', 'picked') === null) return null
  return Object.fromEntries(
    ROW_STATES.map((state) => [state, totalIn(totals, 'rows', state) ?? 0]),
  ) as Record<RowState, number>
}

/** Only what there is something to say of. */
const list = (fields: ReadonlyArray<readonly [string, Part]>): Html =>
  html`<dl class="fields">
    ${fields
      .filter(([, value]) => value !== null)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
  </dl>`
