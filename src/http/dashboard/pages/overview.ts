import type { DashboardData, RunOverview } from '../../../actions/dashboard-data.ts'
import { failuresSection } from './failures.ts'
import { type Html, type HtmlPart, html } from '../html.ts'
import { jobsSection } from './jobs.ts'
import { callsTable, rateLimitStatus, rateSection } from './rate-limit.ts'
import { readTotal, runsSection } from './runs.ts'
import { sourceCard } from './sources.ts'
import { formatCount, formatPercent, pluralize } from '../../../util/format.ts'
import { Run } from '../../../domain/run.ts'
import { type Tone, ratio, timeAgo } from '../components.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'

/** The overview page. */
export const overviewPage = (data: DashboardData): Html =>
  html`<h1 class="sr">Overview</h1>
    ${healthSection(data)} ${metricTiles(data)}
    <div class="grid">${data.sources.map((source) => sourceCard(source, data.readAt))}</div>
    ${rateSection(data)} ${runsSection(data)}
    <div class="grid">${jobsSection(data)}${failuresSection(data)}</div>`

/** The live parts, by the id of the element that each replaces. */
export function liveParts(data: DashboardData): ReadonlyMap<string, Html> {
  return new Map([
    ['verdict', healthSection(data)],
    ['tiles', metricTiles(data)],
    ...data.sources.map((source) => [`source-${source.name}`, sourceCard(source, data.readAt)] as const),
    ['quota', rateLimitStatus(data)],
    ['calls-details', callsTable(data)],
    ['runs', runsSection(data)],
    ['jobs', jobsSection(data)],
    ['failures', failuresSection(data)],
  ])
}

/** Whether Fillrate works, and what needs attention. */
export function healthSection(data: DashboardData): Html {
  const problems = findProblems(data)
  const [tone, headline] = createHeadline(data)
  return html`<section
    id="verdict"
    class="verdict ${problems.some((one) => one.tone === 'bad') ? 'bad' : tone}"
    aria-label="Health"
  >
    <p class="headline">${headline}</p>
    ${
      problems.length > 0 &&
      html`<ul>
        ${problems.map((one) => html`<li class="${one.tone}">${one.text}</li>`)}
      </ul>`
    }
  </section>`
}

function createHeadline({ runs, readAt: at }: DashboardData): [Tone, HtmlPart] {
  const live = runs.filter((run) => run.alive)
  const [first] = live
  if (first !== undefined)
    return [
      'busy',
      live.length === 1 ? runningHeadline(first) : `${formatCount(live.length)} runs in progress`,
    ]
  const [last] = runs
  if (last === undefined) return ['quiet', 'No runs yet.']
  const enriched = readTotal(last.totals, 'rows', 'enriched')
  const picked = readTotal(last.totals, 'rows', 'picked')
  const did =
    enriched !== null && picked !== null
      ? picked === 0
        ? ' and found nothing to do'
        : ` and enriched ${formatCount(enriched)} of ${pluralize(picked, 'row')}`
      : ''
  return [
    last.state === Run.completed ? 'good' : last.state === Run.failed ? 'bad' : 'warn',
    html`Idle. <a href="/runs/${last.id}">Run ${last.id}</a> ${last.state}
      ${timeAgo(last.finished_at ?? last.started_at, at)}${did}.`,
  ]
}

function runningHeadline(run: RunOverview): Html {
  const rows = Object.values(run.states ?? {}).reduce((sum, n) => sum + n, 0)
  const finished = rows - (run.states?.waiting ?? 0)
  return html`<a href="/runs/${run.id}">Run ${run.id}</a> is in progress: ${formatCount(finished)} of
    ${pluralize(rows, 'row')} finished (${Math.floor(ratio(finished, rows) * 100)}%).`
}

function findProblems({ runs, jobs, sources, rateLimits }: DashboardData): { tone: Tone; text: HtmlPart }[] {
  const [last] = runs
  const overdue = jobs.reduce((sum, group) => sum + group.overdue, 0)
  const inDoubt = jobs.find((group) => group.state === 'in_doubt')?.jobs ?? 0
  const paused = sources.filter((source) => source.pause !== null).map((source) => source.name)
  const [rateLimit] = rateLimits
  return [
    ...(last?.state === Run.failed && last.reason !== null
      ? [{ tone: 'bad' as const, text: `The last run failed: ${last.reason}` }]
      : []),
    ...(overdue > 0
      ? [
          {
            tone: 'bad' as const,
            text: `${pluralize(overdue, 'job')} past the deadline; any running Fillrate process will expire them.`,
          },
        ]
      : []),
    ...(inDoubt > 0
      ? [
          {
            tone: 'warn' as const,
            text: `${pluralize(inDoubt, 'job')} in doubt: the submission may have arrived, so it is not repeated before the deadline.`,
          },
        ]
      : []),
    ...(paused.length > 0 ? [{ tone: 'warn' as const, text: `Paused: ${paused.join(', ')}.` }] : []),
    ...(rateLimit?.status?.sharedKey === true && rateLimit.status.isLive
      ? [{ tone: 'warn' as const, text: 'Another client seems to use the same key.' }]
      : []),
  ]
}

/** Key figures: what was filled, what it cost, what is stuck. */
export function metricTiles(data: DashboardData): Html {
  const states = data.sources.map((source) => source.states)
  const all = states.reduce((sum, one) => sum + Object.values(one).reduce((a, b) => a + b, 0), 0)
  const sumOf = (names: readonly string[]): number =>
    states.reduce(
      (sum, one) => sum + names.reduce((a, name) => a + (one[name as keyof typeof one] ?? 0), 0),
      0,
    )
  const enriched = sumOf(['enriched'])
  const calls = data.calls.reduce((sum, one) => sum + one.calls, 0)
  const throttled = data.calls.filter((one) => one.status === '429').reduce((sum, one) => sum + one.calls, 0)
  return html`<section id="tiles" class="tiles" aria-label="Key figures">
    <dl>
      ${tile('Cells filled', formatCount(data.usage.written), 'in 30 days')}
      ${tile('Rows enriched', formatCount(enriched), all === 0 ? 'no rows picked yet' : `${formatPercent(ratio(enriched, all))} of ${formatCount(all)} picked`)}
      ${tile('Lookups (billable)', formatCount(data.usage.requested), 'in 30 days')}
      ${tile('API calls', formatCount(calls), throttled === 0 ? 'in the last hour, none throttled' : `in the last hour, ${formatCount(throttled)} throttled`)}
      ${tile('Waiting', formatCount(sumOf(['waiting'])), 'rows')}
      ${tile('Not enriched', formatCount(sumOf(FAILURE_STATES)), 'rows, see reasons below')}
    </dl>
  </section>`
}

const tile = (name: string, value: string, more: string): Html =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd><b>${value}</b> <span>${more}</span></dd>
  </div>`
