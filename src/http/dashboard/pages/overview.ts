import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { SystemData } from '../../../actions/system-data.ts'
import { FAILURE_STATES, type RowState } from '../../../domain/row.ts'
import { billedUnits } from '../../../domain/spend.ts'
import { formatCount, formatMoney, formatPercent } from '../../../util/format.ts'
import { card, countLink, namesOf, ratio, tile, tiles, timeAgo } from '../components.ts'
import { countRows } from '../funnel.ts'
import { html, livePart, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
import { callsFigure, rateLimitStatus } from './rate-limit.ts'
import { runsTable } from './runs.ts'
import { sourcesSummary } from './sources.ts'
import { healthSection } from './verdict.ts'

/** Runs on the overview; the others are on their own page. */
const RUNS = 6

/** Whether Fillrate works, what needs attention, what it does now and next. */
export const overviewPage: Page = {
  path: '/',
  name: 'Overview',
  isLive: true,
  show: async ({ canAct }, { readData, readSystem }) => {
    const data = await readData()
    const system = await readSystem()
    return {
      body: html`<h1 class="sr">Overview</h1>
        ${healthSection(data, canAct)} ${metricTiles(data)} ${sourcesSummary(data, system.followed)}
        ${runsSection(data, system)}
        ${card(
          'rate',
          'API calls',
          html`<div class="columns">
            <div>${rateLimitStatus(data)}</div>
            ${callsFigure(data)}
          </div>`,
        )}`,
    }
  },
}

const runsSection = (data: DashboardData, system: SystemData): Html =>
  card(
    'runs',
    'Runs',
    [nextRunSentence(system), runsTable(data.runs.slice(0, RUNS), data.readAt)],
    data.runs.length > 0 && html`<a href="/runs">All runs</a>`,
  )

/** When a run starts by itself, in one sentence; what to do if none does. */
function nextRunSentence({ nextRuns, hasDaemon, readAt, followed }: SystemData): HtmlPart {
  const [next] = nextRuns.toSorted((a, b) => a.at.getTime() - b.at.getTime())
  if (next !== undefined)
    return html`<p class="sub">
      ${
        hasDaemon
          ? html`Next scheduled run ${timeAgo(next.at, readAt)}, of ${namesOf(next.sources)}.`
          : html`<strong>No daemon is running:</strong> the scheduled run of ${namesOf(next.sources)} due
              ${timeAgo(next.at, readAt)} will not start. Start <code>fillrate start</code>.`
      }
    </p>`
  if (followed.length > 0)
    return html`<p class="sub">No schedule; live sync watches ${namesOf(followed)}.</p>`
  return html`<p class="sub">
    No schedule: runs start with <code>fillrate run</code>, or with <code>schedule</code> in the configuration
    and <code>fillrate start</code>.
  </p>`
}

/** Key figures: what was filled, what it cost, what is stuck. */
function metricTiles(data: DashboardData): Html {
  const sumOf = (states?: readonly RowState[]): number =>
    data.sources.reduce((sum, source) => sum + countRows(source.states, states), 0)
  const all = sumOf()
  const enriched = sumOf(['enriched'])
  const billed = billedUnits(data.spend.last_30_days)
  const calls = data.calls.reduce((sum, one) => sum + one.calls, 0)
  const throttled = data.calls.filter((one) => one.status === '429').reduce((sum, one) => sum + one.calls, 0)
  if (all === 0 && data.runs.length === 0) return firstSteps()
  return tiles('tiles', 'Key figures', [
    countTile('Cells written', data.cellsWritten, 'in 30 days, less those undone'),
    countTile(
      'Rows enriched',
      enriched,
      all === 0
        ? 'no rows picked yet'
        : `${formatPercent(ratio(enriched, all))} of ${formatCount(all)} picked`,
      '/rows?state=enriched',
    ),
    countTile(billed.noun === 'credit' ? 'Credits' : 'Lookups (billable)', billed.count, spendText(data)),
    countTile(
      'API calls',
      calls,
      throttled === 0 ? 'last hour, none throttled' : `last hour, ${formatCount(throttled)} throttled`,
    ),
    countTile('Rows waiting', sumOf(['waiting']), 'for an answer or a run', '/rows?state=waiting'),
    countTile('Not enriched', sumOf(FAILURE_STATES), 'rows, by reason', '/failures'),
  ])
}

/** In place of six zeros. */
const firstSteps = (): Html =>
  livePart(
    'tiles',
    html`<section id="tiles" class="card" aria-label="First steps">
      <ol class="steps">
        <li><code>fillrate check</code> tries the configuration, the tables and the webhook.</li>
        <li>
          <code>fillrate plan</code> shows what a run would request and what it costs, and calls nothing.
        </li>
        <li>
          <code>fillrate run --dry-run --sample 20</code> looks up a few rows and reports what it would write.
        </li>
        <li><code>fillrate start</code> runs the schedule, live sync, and what is started here.</li>
      </ol>
    </section>`,
  )

/** What the lookups of the tile cost, if there is a price. */
const spendText = ({ spend: { last_30_days: month } }: DashboardData): string =>
  month.cost === null ? 'in 30 days' : `in 30 days: ${formatMoney(month.cost)}`

/** A number that leads to what it counts. */
const countTile = (name: string, value: number, more: string, link: string | null = null): Html =>
  tile(name, link === null ? formatCount(value) : countLink(value, link), more)
