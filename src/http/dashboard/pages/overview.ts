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

/** The first page. */
export const overviewPage = (board: DashboardData): Html =>
  html`<h1 class="sr">How Fillrate goes</h1>
    ${healthSection(board)} ${metricTiles(board)}
    <div class="grid">${board.sources.map((source) => sourceCard(source, board.at))}</div>
    ${rateSection(board)} ${runsSection(board)}
    <div class="grid">${jobsSection(board)}${failuresSection(board)}</div>`

/** The parts of it that go on, by the id of the element that each takes the place of. */
export function liveParts(board: DashboardData): ReadonlyMap<string, Html> {
  return new Map([
    ['verdict', healthSection(board)],
    ['tiles', metricTiles(board)],
    ...board.sources.map((source) => [`source-${source.name}`, sourceCard(source, board.at)] as const),
    ['quota', rateLimitStatus(board)],
    ['calls-details', callsTable(board)],
    ['runs', runsSection(board)],
    ['jobs', jobsSection(board)],
    ['failures', failuresSection(board)],
  ])
}

/** At a glance: is it working, and what wants somebody to act. */
export function healthSection(board: DashboardData): Html {
  const troubles = findProblems(board)
  const [tone, headline] = createHeadline(board)
  return html`<section
    id="verdict"
    class="verdict ${troubles.some((one) => one.tone === 'bad') ? 'bad' : tone}"
    aria-label="How it goes"
  >
    <p class="headline">${headline}</p>
    ${
      troubles.length > 0 &&
      html`<ul>
        ${troubles.map((one) => html`<li class="${one.tone}">${one.text}</li>`)}
      </ul>`
    }
  </section>`
}

function createHeadline({ runs, at }: DashboardData): [Tone, HtmlPart] {
  const live = runs.filter((run) => run.alive)
  const [first] = live
  if (first !== undefined)
    return [
      'busy',
      live.length === 1 ? runningHeadline(first) : `${formatCount(live.length)} runs are under way`,
    ]
  const [last] = runs
  if (last === undefined) return ['quiet', 'Nothing has run yet.']
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
  const settled = rows - (run.states?.waiting ?? 0)
  return html`<a href="/runs/${run.id}">Run ${run.id}</a> is under way: ${formatCount(settled)} of
    ${pluralize(rows, 'row')} settled (${Math.floor(ratio(settled, rows) * 100)}%).`
}

function findProblems({ runs, jobs, sources, quotas }: DashboardData): { tone: Tone; text: HtmlPart }[] {
  const [last] = runs
  const overdue = jobs.reduce((sum, group) => sum + group.overdue, 0)
  const inDoubt = jobs.find((group) => group.state === 'in_doubt')?.jobs ?? 0
  const paused = sources.filter((source) => source.pause !== null).map((source) => source.name)
  const [quota] = quotas
  return [
    ...(last?.state === Run.failed && last.reason !== null
      ? [{ tone: 'bad' as const, text: `The last run failed: ${last.reason}` }]
      : []),
    ...(overdue > 0
      ? [
          {
            tone: 'bad' as const,
            text: `${pluralize(overdue, 'job')} past the deadline, and nobody is there to give them up.`,
          },
        ]
      : []),
    ...(inDoubt > 0
      ? [
          {
            tone: 'warn' as const,
            text: `${pluralize(inDoubt, 'job')} in doubt: it is unknown whether the submission arrived; not sent again before the deadline.`,
          },
        ]
      : []),
    ...(paused.length > 0 ? [{ tone: 'warn' as const, text: `Paused: ${paused.join(', ')}.` }] : []),
    ...(quota?.told?.shared_key === true && quota.told.live
      ? [{ tone: 'warn' as const, text: 'Another client seems to spend the same key.' }]
      : []),
  ]
}

/** The numbers that answer: what did it fill, what does it cost, what is stuck. */
export function metricTiles(board: DashboardData): Html {
  const states = board.sources.map((source) => source.states)
  const all = states.reduce((sum, one) => sum + Object.values(one).reduce((a, b) => a + b, 0), 0)
  const sumOf = (names: readonly string[]): number =>
    states.reduce(
      (sum, one) => sum + names.reduce((a, name) => a + (one[name as keyof typeof one] ?? 0), 0),
      0,
    )
  const enriched = sumOf(['enriched'])
  const calls = board.calls.reduce((sum, one) => sum + one.calls, 0)
  const throttled = board.calls.filter((one) => one.status === '429').reduce((sum, one) => sum + one.calls, 0)
  return html`<section id="tiles" class="tiles" aria-label="In numbers">
    <dl>
      ${tile('Cells filled', formatCount(board.spent.written), 'in 30 days')}
      ${tile('Rows enriched', formatCount(enriched), all === 0 ? 'no row picked yet' : `${formatPercent(ratio(enriched, all))} of ${formatCount(all)} picked`)}
      ${tile('Lookups asked', formatCount(board.spent.asked), 'in 30 days: what it costs')}
      ${tile('Calls', formatCount(calls), throttled === 0 ? 'in the last hour, none throttled' : `in the last hour, ${formatCount(throttled)} throttled`)}
      ${tile('Waiting', formatCount(sumOf(['waiting'])), 'rows')}
      ${tile('Could not be enriched', formatCount(sumOf(FAILURE_STATES)), 'rows, by reason below')}
    </dl>
  </section>`
}

const tile = (name: string, value: string, more: string): Html =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd><b>${value}</b> <span>${more}</span></dd>
  </div>`
