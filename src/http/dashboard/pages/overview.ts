import type { BudgetReport, RateLimitReport } from '../../../domain/report/status.ts'
import {
  type DashboardData,
  type ServiceOverview,
  type Verdict,
  type SystemData,
} from '../../../actions/dashboard-data.ts'
import { listFollowed } from '../../../config/config.ts'
import { nextTimes } from '../../../config/cron.ts'
import { CHANGE_LIMIT, formatLimit, formatOverstated } from '../../../domain/rate-status.ts'
import { BUDGET_NAMES, formatSpend } from '../../../domain/spend.ts'
import { formatState } from '../../../domain/row.ts'
import { formatCount, pluralize } from '../../../util/text.ts'
import { badge, card, dataTable, nameText, sourceLinks, timeAgo } from '../components.ts'
import { html, type Markup, type HtmlPart } from '../html.ts'
import type { DashboardDeps, Page } from '../page.ts'
import { runsTable } from './runs.ts'
import { sourcesCard } from './source.ts'
import { findServiceCondition, healthSection, tryLink } from './verdict.ts'

/** Whether Fillrate works, what needs attention, what it does now and next. */
export const overviewPage: Page = {
  path: '/',
  name: 'Overview',
  isLive: true,
  show: async ({ canAct }, { config, readData, readSystem, readVerdict }) => {
    const [data, system, verdict] = await Promise.all([readData(), readSystem(), readVerdict()])
    return {
      body: html`<h1 class="sr">Overview</h1>
        ${healthSection(verdict, canAct)} ${servicesCard(data, verdict, canAct)}
        ${sourcesCard(data, verdict, listFollowed(config.sources))} ${budgetsCard(data)}
        ${runsCard(data, system, config)}`,
    }
  },
}

/** One line a service. */
const servicesCard = (
  data: DashboardData,
  { conditions }: Pick<Verdict, 'conditions'>,
  canAct: boolean,
): Markup =>
  card(
    'services',
    'Services',
    dataTable<ServiceOverview>(
      'Services, with what was called today (UTC)',
      [
        { name: 'service', kind: 'row', cell: ({ name }) => nameText(name) },
        { name: 'state', cell: (service) => serviceState(service, conditions) },
        {
          name: 'limit',
          cell: ({ limits }) => (limits.length === 0 ? '–' : limits.map(limitText)),
        },
        { name: 'calls today', kind: 'number', cell: ({ today }) => countOrDash(today?.calls) },
        { name: '429s', kind: 'number', cell: ({ today }) => countOrDash(today?.throttled) },
        { name: 'errors', kind: 'number', cell: ({ today }) => countOrDash(today?.failed) },
        {
          name: 'billed in 30 days',
          kind: 'number',
          cell: ({ today, last30Days }) => (today === null ? '–' : formatSpend(last30Days)),
        },
        canAct && {
          name: 'action',
          cell: ({ name }) => tryLink(name),
        },
      ],
      data.services,
      { none: 'No service was called yet.' },
    ),
  )

const countOrDash = (count: number | undefined): string => (count === undefined ? '–' : formatCount(count))

function serviceState(
  { name, limits }: Pick<ServiceOverview, 'name' | 'limits'>,
  conditions: Verdict['conditions'],
): HtmlPart {
  const condition = findServiceCondition(conditions, name)
  if (condition !== undefined)
    return badge(formatState(condition.kind), condition.severity === 'error' ? 'bad' : 'warn')
  const status = limits.find(({ status }) => status?.live === true)?.status
  if (status == null) return badge('idle', 'quiet')
  return [
    badge('calling', 'busy'),
    status.stall_reason !== null && html` <span class="soft">${status.stall_reason}</span>`,
  ]
}

/** The limit of a key: `150 calls in 2 s`, and whether it is stated too high. */
export const limitText = ({ limit, window_ms: windowMs, status }: RateLimitReport): Markup =>
  html`<span class="limit"
    >${formatLimit(limit, windowMs)}${status?.beside && html`<span class="soft">, and ${formatLimit(status.beside.limit, status.beside.window_ms)}, learnt from refusals</span>`}${status?.overstated && html` <span class="fault">${formatOverstated(status.overstated.limit, status.overstated.window_ms, status.overstated)}: ${CHANGE_LIMIT}</span>`}</span
  >`

/** What is left of each budget; nothing while there is none. */
function budgetsCard({ spend: { budgets } }: DashboardData): HtmlPart {
  const limited = budgets.filter(({ limit }) => limit !== null)
  if (limited.length === 0) return null
  return card(
    'budgets',
    'Budgets',
    dataTable<BudgetReport>(
      'Budgets of today and of runs in progress',
      [
        {
          name: 'budget',
          kind: 'row',
          cell: ({ kind, run }) =>
            run === null ? BUDGET_NAMES[kind] : html`<a href="/runs/${run}">${BUDGET_NAMES[kind]} ${run}</a>`,
        },
        { name: 'of', kind: 'number', cell: ({ limit, unit }) => pluralize(limit ?? 0, unit ?? 'lookup') },
        { name: 'billed', kind: 'number', cell: ({ spent }) => formatCount(spent) },
        {
          name: 'left',
          kind: 'number',
          cell: ({ left }) => (left === 0 ? badge('used up', 'warn') : formatCount(left ?? 0)),
        },
      ],
      limited,
    ),
  )
}

const runsCard = (data: DashboardData, system: SystemData, config: DashboardDeps['config']): Markup =>
  card(
    'runs',
    'Runs',
    [nextRunSentence(system, config), runsTable(data.runs, data.readAt)],
    data.runs.length > 0 && html`<a href="/runs">All runs</a>`,
  )

/** When a run starts by itself, in one sentence; what to do if none does. */
function nextRunSentence({ hasDaemon, readAt }: SystemData, { schedule }: DashboardDeps['config']): Markup {
  const [next] = schedule
    .flatMap((entry) => nextTimes(entry, readAt, 1).map((at) => ({ at: new Date(at), ...entry })))
    .toSorted((a, b) => a.at.getTime() - b.at.getTime())
  if (next !== undefined)
    return html`<div class="sub">
      ${
        hasDaemon
          ? html`Next scheduled run ${timeAgo(next.at, readAt)}, of ${sourceLinks(next.sources)}`
          : html`<strong>No daemon is running:</strong> the scheduled run due ${timeAgo(next.at, readAt)} will
              not start. Start <code>fillrate start</code>.`
      }
    </div>`
  return html`<p class="sub">
    No schedule: runs start with <code>fillrate run</code>, or with <code>schedule</code> in the configuration
    and <code>fillrate start</code>.
  </p>`
}
