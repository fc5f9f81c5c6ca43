import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { SystemData } from '../../../actions/system-data.ts'
import type { RateLimitStatus } from '../../../actions/status.ts'
import { CHANGE_LIMIT, formatLimit, formatOverstated } from '../../../domain/rate-status.ts'
import { FAILURE_STATES, formatState, type RowState } from '../../../domain/row.ts'
import { billedUnits } from '../../../domain/spend.ts'
import { formatCount, formatDuration, formatMoney, formatPercent, pluralize } from '../../../util/format.ts'
import {
  badge,
  card,
  countLink,
  definitionList,
  namesOf,
  ratio,
  shareBar,
  tile,
  tiles,
  timeAgo,
} from '../components.ts'
import { countRows } from '../funnel.ts'
import { html, livePart, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
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
        ${runsSection(data, system)} ${card('rate', 'API calls', rateLimitStatus(data))}`,
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
  const { calls, throttled } = data.callsToday
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
      throttled === 0 ? 'today (UTC), none throttled' : `today (UTC), ${formatCount(throttled)} throttled`,
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

type LeaderStatus = NonNullable<RateLimitStatus['status']>

/** The rate limit, as the leader reported it last. */
export function rateLimitStatus({
  rateLimits,
  readAt: at,
}: Pick<DashboardData, 'rateLimits' | 'readAt'>): Html {
  const body =
    rateLimits.length === 0
      ? html`<p class="empty">
          The service has not reported a rate limit yet: it does with its first answers.
        </p>`
      : rateLimits.map((one) => rateLimitFields(one, at))
  return livePart('quota', html`<div id="quota">${body}</div>`)
}

function rateLimitFields(
  { service, limit, windowMs, observedAt, status }: RateLimitStatus,
  at: number,
): Html {
  const isNow = status?.isLive === true
  const fields: [string, HtmlPart][] = [
    ['Rate limit', formatLimit(limit, windowMs, status?.windowAtMostMs)],
    ...(isNow ? currentWindowFields(status, limit, at) : []),
    ...(status === null || status.limit === null ? [] : usageFields(status)),
  ]
  return html`<p class="sub">
      <strong>${service}</strong>
      ·
      ${
        isNow
          ? badge('calling', 'busy')
          : html`idle; last reported ${timeAgo(status?.reportedAt ?? new Date(observedAt), at)}`
      }
    </p>
    ${definitionList(fields)}`
}

function currentWindowFields(status: LeaderStatus, limit: number, at: number): [string, HtmlPart][] {
  const { windowUsed: used, nextWindowAt: next } = status
  return [
    [
      'Used in this window',
      html`${formatCount(used)} of ${formatCount(limit)}
      ${shareBar([{ share: ratio(used, limit), look: 'flow' }])}`,
    ],
    ['Resets', next === null ? 'not known yet' : next <= at ? 'now' : `in ${formatDuration(next - at)}`],
    ['State', status.stallReason ?? formatState(status.state)],
  ]
}

const usageFields = (status: LeaderStatus): [string, HtmlPart][] => [
  [
    'Utilisation',
    status.utilisation === null
      ? null
      : `${formatPercent(status.utilisation)} (${pluralize(status.used, 'call')})`,
  ],
  ['Throttled', status.throttled === 0 ? 'never' : `${formatCount(status.throttled)} (429)`],
  ...(status.overstated
    ? [['Too high', `${formatOverstated(status.overstated)}: ${CHANGE_LIMIT}`] as [string, HtmlPart]]
    : []),
]
