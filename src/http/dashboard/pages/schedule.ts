import type { ScheduleOverview, SystemData } from '../../../actions/system-data.ts'
import { formatCount, formatDuration, pluralize } from '../../../util/format.ts'
import {
  badge,
  breakable,
  card,
  clamped,
  clockTime,
  dataTable,
  empty,
  stateBadge,
  timeAgo,
  nameText,
  namesOf,
  sourcesCell,
} from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'

/** When a run starts by itself, in one sentence; what to do if none does. */
export function scheduleSummary({ schedules, hasDaemon, readAt, liveSync }: SystemData): HtmlPart {
  const next = schedules
    .flatMap(({ next: [at], sources }) => (at === undefined ? [] : [{ at, sources }]))
    .toSorted((a, b) => a.at.getTime() - b.at.getTime())[0]
  if (next !== undefined)
    return html`<p class="sub">
      ${
        hasDaemon
          ? html`Next scheduled run ${timeAgo(next.at, readAt)}, of ${namesOf(next.sources)}.`
          : html`<strong>No daemon is running:</strong> the scheduled run of ${namesOf(next.sources)} due
              ${timeAgo(next.at, readAt)} will not start. Start <code>fillrate start</code>.`
      }
      <a href="/runs#schedule">Schedule</a>
    </p>`
  if (liveSync.sources.length > 0)
    return html`<p class="sub">No schedule; live sync watches ${namesOf(liveSync.sources)}.</p>`
  return html`<p class="sub">
    No schedule: runs start with <code>fillrate run</code>, or with <code>schedule</code> in the configuration
    and <code>fillrate start</code>.
  </p>`
}

/** The schedules with their next and last times, and what was skipped. */
export function scheduleSection(data: SystemData): Html {
  const { schedules, readAt, scheduledRuns, hasDaemon } = data
  const skipped = scheduledRuns.filter((one) => one.state === 'skipped').slice(0, 10)
  return card('schedule', 'Schedule', [
    schedules.length === 0
      ? scheduleSummary(data)
      : [
          !hasDaemon && scheduleSummary(data),
          dataTable(
            'Schedules',
            [
              { name: 'when', kind: 'row', cell: describeSchedule },
              { name: 'sources', cell: ({ sources }) => sourcesCell(sources) },
              {
                name: 'next',
                cell: ({ next }) => (hasDaemon ? nextCell(next, readAt) : badge('no daemon', 'bad')),
              },
              { name: 'last', kind: 'text', cell: ({ last }) => last && lastCell(last, readAt) },
            ],
            schedules,
          ),
        ],
    skipped.length > 0 &&
      dataTable(
        'Skipped lately',
        [
          { name: 'due', kind: 'row', cell: (one) => clockTime(one.at) },
          {
            name: 'schedule',
            cell: (one) => html`<code class="short">${one.schedule.split(' | ')[0]}</code>`,
          },
          { name: 'why', kind: 'text', cell: (one) => clamped(one.reason) },
        ],
        skipped,
        { isCaptionShown: true },
      ),
  ])
}

const describeSchedule = ({ cron, timezone }: ScheduleOverview): Html =>
  html`<code class="short">${cron}</code>
    ${timezone !== null && html`<span class="soft">${breakable(timezone)}</span>`}`

/** How the latest firing went. */
const lastCell = (
  { state, at, run, reason }: NonNullable<ScheduleOverview['last']>,
  now: number,
): HtmlPart => [
  stateBadge(state),
  ' ',
  timeAgo(at, now),
  run !== null && html`, <a href="/runs/${run}">run ${run}</a>`,
  clamped(reason),
]

const nextCell = ([next, ...others]: readonly Date[], now: number): HtmlPart =>
  next === undefined
    ? 'never'
    : html`${timeAgo(next, now)}${others.length > 0 && html`<span class="soft">, then ${others.map((at, n) => [n > 0 && ', ', timeAgo(at, now)])}</span>`}`

/** What live sync has still to pick, by source. */
export function liveSyncSection({ liveSync, readAt, hasDaemon }: SystemData): Html {
  const { sources, backlogs, owner, spentToday } = liveSync
  if (sources.length === 0 && backlogs.length === 0)
    return card(
      'live-sync',
      'Live sync',
      empty(
        html`No source is followed. <code>follow: true</code> on a source, and
          <code>fillrate follow install</code>, enrich its rows as they change.`,
      ),
    )
  const oldest = backlogs
    .filter((one) => !one.isImport)
    .reduce<Date | null>(
      (first, { oldestAt }) => (first === null || oldestAt < first ? oldestAt : first),
      null,
    )
  return card('live-sync', 'Live sync', [
    html`<p class="sub">
      ${owner === null ? [badge('not running', hasDaemon ? 'warn' : 'bad'), ' no process picks changes'] : [badge('running', 'good'), ' in ', html`<code>${processName(owner)}</code>`]}
      · ${pluralize(spentToday, 'lookup')} spent today (UTC) ·
      ${oldest === null ? 'up to date' : [formatDuration(Math.max(0, readAt - oldest.getTime())), ' behind']}
    </p>`,
    dataTable(
      'Changes that wait to be picked, by source',
      [
        { name: 'source', kind: 'row', cell: ({ name }) => nameText(name) },
        { name: 'rows waiting', kind: 'number', cell: ({ changes }) => formatCount(changes?.rows ?? 0) },
        { name: 'oldest change', cell: ({ changes }) => changes && timeAgo(changes.oldestAt, readAt) },
        {
          name: 'rows of imports waiting',
          kind: 'number',
          cell: ({ imports }) => formatCount(imports?.rows ?? 0),
        },
      ],
      [...new Set([...sources, ...backlogs.map((one) => one.source)])].map((name) => ({
        name,
        changes: backlogs.find((one) => one.source === name && !one.isImport) ?? null,
        imports: backlogs.find((one) => one.source === name && one.isImport) ?? null,
      })),
    ),
  ])
}

/** `host:1234` of the owner of a lease. */
export const processName = (owner: string): string => owner.split(':').slice(0, 2).join(':')
