import { formatCount, formatDuration, formatPercent } from '../../../util/format.ts'
import type { DashboardData, RunOverview } from '../../../actions/dashboard-data.ts'
import { type Html, type HtmlPart, html } from '../html.ts'
import {
  card,
  definitionList,
  numberCell,
  scrollable,
  stateBadge,
  stateTone,
  timeAgo,
} from '../components.ts'
import { ROW_STATES, type RowState } from '../../../domain/row.ts'
import type { SkippedGroup } from '../../../domain/skipped-cell.ts'
import type { RunReport } from '../../../runs/report.ts'
import type { StoredRun } from '../../../store/runs.ts'
import type { RowStateCounts } from '../../../store/rows.ts'
import { skippedCellsTable } from './failures.ts'
import { funnelTable } from '../funnel.ts'

export function runsSection(data: DashboardData): Html {
  if (data.runs.length === 0)
    return card(
      'runs',
      'Runs',
      html`<p class="empty">
        No runs yet. <code>fillrate plan</code> estimates one, <code>fillrate run</code> starts one.
      </p>`,
    )
  return card('runs', 'Runs', [timeline(data), runsTable(data)])
}

const endTime = (run: RunOverview, now: number): number => run.finished_at?.getTime() ?? now

/** The kind of a run, if it is not an ordinary one; else its trigger. */
export function runKind({
  options: { dry, undoes, remap },
  trigger,
}: RunOverview | DashboardData['runs'][number]): string {
  if (undoes !== undefined) return `undo of ${undoes}`
  if (remap === true) return 'remap'
  return dry === true ? 'dry' : trigger
}

/** Puts each run into the first free lane of a timeline. Pure. */
export function assignLanes(
  list: ReadonlyArray<{ readonly from: number; readonly to: number }>,
  least: number,
): number[] {
  const ends: number[] = []
  return list.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from)
    const lane = free === -1 ? ends.length : free
    ends[lane] = Math.max(to, from + least)
    return lane
  })
}

const TIMELINE_WIDTH = 1_000
const LANE_HEIGHT = 14

function timeline({ runs: list, readAt }: DashboardData): Html {
  const ordered = list.toReversed()
  const begin = ordered[0]?.started_at.getTime() ?? readAt
  const length = Math.max(1, readAt - begin)
  const spans = ordered.map((run) => ({ from: run.started_at.getTime(), to: endTime(run, readAt) }))
  const placed = assignLanes(spans, (length * 6) / TIMELINE_WIDTH)
  const height = LANE_HEIGHT * (Math.max(0, ...placed) + 1)
  return html`<figure class="timeline" aria-hidden="true">
    <svg viewBox="0 0 ${TIMELINE_WIDTH} ${height}" height="${height}" preserveAspectRatio="none">
      ${ordered.map((run, n) => {
        const { from = begin, to = readAt } = spans[n] ?? {}
        const x = ((from - begin) / length) * (TIMELINE_WIDTH - 6)
        const width = Math.max(5, ((to - from) / length) * TIMELINE_WIDTH)
        return html`<rect
          class="${stateTone(run.state)}"
          x="${x.toFixed(1)}"
          y="${(placed[n] ?? 0) * LANE_HEIGHT + 1}"
          width="${Math.min(width, TIMELINE_WIDTH - x).toFixed(1)}"
          height="${LANE_HEIGHT - 2}"
          ><title>run ${run.id}, ${run.state}, ${formatDuration(to - from)}</title></rect
        >`
      })}
    </svg>
    <figcaption><span>${timeAgo(new Date(begin), readAt)}</span><span>now</span></figcaption>
  </figure>`
}

function runsTable({ runs: list, readAt }: DashboardData): Html {
  return scrollable(
    'Runs',
    html`<table class="runs">
      <caption class="sr">
        The latest runs and their results
      </caption>
      <thead>
        <tr>
          <th scope="col">run</th>
          <th scope="col">state</th>
          <th scope="col">kind</th>
          <th scope="col">sources</th>
          <th scope="col">started</th>
          <th scope="col" class="n">duration</th>
          <th scope="col" class="n">picked</th>
          <th scope="col" class="n">enriched</th>
          <th scope="col" class="n">cells</th>
          <th scope="col" class="n">lookups</th>
          <th scope="col" class="n">calls</th>
          <th scope="col">reason</th>
        </tr>
      </thead>
      <tbody>
        ${list.map((run) => runRow(run, readAt))}
      </tbody>
    </table>`,
  )
}

function runRow(run: RunOverview, at: number): Html {
  const { totals, states } = run
  const picked =
    states === null ? readTotal(totals, 'rows', 'picked') : Object.values(states).reduce((a, b) => a + b, 0)
  const calls = ['person', 'company', 'bulk'].map((name) => readTotal(totals, 'requests', name))
  // Projected numbers of a dry run could be mistaken for real ones.
  const dry = run.options.dry === true
  return html`<tr>
    <th scope="row"><a href="/runs/${run.id}">${run.id}</a></th>
    <td>${stateBadge(run.state)}</td>
    <td>${runKind(run)}</td>
    <td>${run.sources.join(', ')}</td>
    <td>${timeAgo(run.started_at, at)}</td>
    <td class="n">${formatDuration(endTime(run, at) - run.started_at.getTime())}</td>
    ${numberCell(picked)}${numberCell(dry ? null : (states?.enriched ?? readTotal(totals, 'rows', 'enriched')))}${numberCell(dry ? null : readTotal(totals, 'cells', 'written'))}
    ${numberCell(readTotal(totals, 'lookups', 'requested'))}${numberCell(calls.every((n) => n === null) ? null : calls.reduce<number>((a, n) => a + (n ?? 0), 0))}
    <td class="reason">${run.reason}</td>
  </tr>`
}

/** A number of a run's totals; null if it is missing, because an older version may have stored another shape. */
export function readTotal(totals: unknown, part: string, name?: string): number | null {
  const inPart = isObject(totals) ? totals[part] : undefined
  const value = name === undefined ? inPart : isObject(inPart) ? inPart[name] : undefined
  return typeof value === 'number' ? value : null
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/**
 * One run with its numbers.
 * @param live current row states of a run in progress
 */
export function runPage(run: StoredRun, live: RowStateCounts | null, now: number): Html {
  const states = live ?? readStates(run.totals)
  const took = (run.finished_at?.getTime() ?? now) - run.started_at.getTime()
  const { options } = run
  const skipped = readSkippedCells(run.totals)
  return html`<h1>Run ${run.id} ${stateBadge(run.state)}</h1>
    <div class="grid">
      ${card(
        'about',
        'Run',
        definitionList([
          ['Kind', runKind({ ...run, alive: live !== null, states: live })],
          ['Sources', run.sources.join(', ') || 'none'],
          ['Started', timeAgo(run.started_at, now)],
          ['Duration', formatDuration(took)],
          ['Budget', options.budget === null ? 'unlimited' : `${formatCount(options.budget)} lookups`],
          ['Limit', options.limit === null ? null : `${formatCount(options.limit)} rows of each source`],
          ['Where', options.where === null ? null : html`<code>${options.where}</code>`],
          ['Route', options.route],
          ['Reason', run.reason],
        ]),
      )}
      ${states !== null && card('rows', 'Rows', funnelTable(options.dry === true ? 'Projected row states' : 'From picked to enriched', states))}
      ${skipped.length > 0 && card('skipped', options.dry === true ? 'Cells that would be skipped' : 'Skipped cells', skippedCellsTable(skipped))}
      ${card('numbers', 'API calls and cells', run.totals === null ? html`<p class="empty">Available when the run ends.</p>` : definitionList(TOTALS.map(([name, part, field]) => [name, totalText(run.totals, part, field)])))}
    </div>`
}

/** The skipped cells of a report; empty if it was stored by another version. */
function readSkippedCells(totals: unknown): readonly SkippedGroup[] {
  const groups = isObject(totals) ? totals['skipped_cells'] : null
  return Array.isArray(groups) ? (groups as SkippedGroup[]) : []
}

/** A label and the number of the report that it shows. */
type ReportTotal = {
  [Part in 'lookups' | 'requests' | 'rate' | 'jobs' | 'cells']: readonly [
    label: string,
    part: Part,
    field: string & keyof RunReport[Part],
  ]
}['lookups' | 'requests' | 'rate' | 'jobs' | 'cells']

const TOTALS: readonly ReportTotal[] = [
  ['Distinct lookups', 'lookups', 'distinct'],
  ['answered earlier', 'lookups', 'stored'],
  ['requested', 'lookups', 'requested'],
  ['found', 'lookups', 'found'],
  ['no match', 'lookups', 'not_found'],
  ['rejected', 'lookups', 'rejected'],
  ['failed', 'lookups', 'failed'],
  ['in doubt', 'lookups', 'in_doubt'],
  ['API calls for people', 'requests', 'person'],
  ['API calls for companies', 'requests', 'company'],
  ['API calls for bulk jobs', 'requests', 'bulk'],
  ['to be retried', 'requests', 'retried'],
  ['throttled (429)', 'requests', 'throttled'],
  ['Rate limit used', 'rate', 'utilisation'],
  ['Jobs submitted', 'jobs', 'submitted'],
  ['completed', 'jobs', 'completed'],
  ['failed', 'jobs', 'failed'],
  ['expired', 'jobs', 'expired'],
  ['in doubt', 'jobs', 'in_doubt'],
  ['waiting', 'jobs', 'waiting'],
  ['Cells written', 'cells', 'written'],
  ['protected', 'cells', 'protected'],
  ['skipped', 'cells', 'skipped'],
]

function totalText(totals: unknown, part: string, field: string): HtmlPart {
  const value = readTotal(totals, part, field)
  if (value === null || value === 0) return null
  return field === 'utilisation' ? formatPercent(value) : formatCount(value)
}

function readStates(totals: unknown): Record<RowState, number> | null {
  if (readTotal(totals, 'rows', 'picked') === null) return null
  return Object.fromEntries(
    ROW_STATES.map((state) => [state, readTotal(totals, 'rows', state) ?? 0]),
  ) as Record<RowState, number>
}
