import type { DashboardData, SourceOverview } from '../../../actions/dashboard-data.ts'
import { describeBackfill } from '../../../domain/backfill.ts'
import { FAILURE_STATES, RETIRED_ADVICE } from '../../../domain/row.ts'
import { runOutcome } from '../../../domain/run.ts'
import { filledShare } from '../../../domain/backfill.ts'
import { formatCount, formatPercent, pluralize } from '../../../util/format.ts'
import { foldNames, listNames } from '../../../util/text.ts'
import {
  badge,
  card,
  countLink,
  dataTable,
  type DataColumn,
  nameText,
  pageHead,
  shareBar,
  stateBadge,
  stateTone,
  timeAgo,
  withCode,
} from '../components.ts'
import { countRows } from '../funnel.ts'
import { buildUrl, html, sourceUrl, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'

/** What the table of sources is sorted by: the most work first, names from A to Z. */
const SORTS = {
  source: { order: 'ascending', compare: (a, b) => a.name.localeCompare(b.name) },
  filled: { order: 'ascending', compare: (a, b) => rankShare(a) - rankShare(b) },
  rows: { order: 'descending', compare: (a, b) => countRows(b.states) - countRows(a.states) },
  waiting: { order: 'descending', compare: (a, b) => b.states.waiting - a.states.waiting },
  'not enriched': { order: 'descending', compare: (a, b) => countFailures(b) - countFailures(a) },
  deleted: { order: 'descending', compare: (a, b) => countDeleted(b) - countDeleted(a) },
  'last run': { order: 'descending', compare: (a, b) => lastRunAt(b) - lastRunAt(a) },
} as const satisfies Record<
  string,
  {
    readonly order: 'ascending' | 'descending'
    readonly compare: (a: SourceOverview, b: SourceOverview) => number
  }
>

type SourceSort = keyof typeof SORTS

/** Null: in the order of the configuration. Pure. @param text as in the address */
const parseSourceSort = (text: string | null): SourceSort | null =>
  (Object.keys(SORTS) as SourceSort[]).find((one) => one === text) ?? null

/** All sources. */
export const sourcesPage: Page = {
  path: '/sources',
  name: 'Sources',
  isLive: true,
  show: async ({ query }, { readData, readSystem }) => {
    const { followed } = await readSystem()
    const sort = parseSourceSort(query.get('sort'))
    return { body: html`${pageHead('Sources')} ${sourcesSection(await readData(), followed, sort)}` }
  },
}

/** All sources, each on a line; its columns sort it on the page of sources. @param followed those that live sync watches */
export const sourcesSection = (
  data: DashboardData,
  followed: readonly string[],
  sort: SourceSort | null,
): Html => {
  const sorted = sort === null ? data.sources : data.sources.toSorted(SORTS[sort].compare)
  return sourcesCard(sourcesTable(data, followed, sorted, sort), data.retired)
}

/** More sources than these are folded on the overview: they would push the runs out of sight. */
const MAX_UNFOLDED = 8
/** Of more, this number is shown at once. */
const MAX_SHOWN = 5

/** The sources on the overview: of many, those that need a look or wait come first, and the rest is folded. */
export function sourcesSummary(data: DashboardData, followed: readonly string[]): Html {
  if (data.sources.length <= MAX_UNFOLDED) return sourcesSection(data, followed, null)
  const sorted = data.sources.toSorted((a, b) => rankNeed(a) - rankNeed(b))
  const [shown, rest] = [sorted.slice(0, MAX_SHOWN), sorted.slice(MAX_SHOWN)]
  const waiting = rest.reduce((sum, { states }) => sum + states.waiting, 0)
  const failed = rest.reduce((sum, source) => sum + countFailures(source), 0)
  return sourcesCard(
    html`${sourcesTable(data, followed, shown, null)}
      <details id="more-sources">
        <summary>
          ${rest.length} more: ${pluralize(waiting, 'row')} waiting, ${formatCount(failed)} not enriched
        </summary>
        ${sourcesTable(data, followed, rest, null)}
      </details>`,
    data.retired,
  )
}

/** 0: something is wrong or held up. Sources of one rank stay in the order of the configuration. */
function rankNeed(source: SourceOverview): number {
  const { pause, breakage, deleted, lastRun, states } = source
  const isStopped = pause !== null || breakage !== null || deleted.some(({ held }) => held !== null)
  if (isStopped || (lastRun !== null && stateTone(runOutcome(lastRun)) === 'bad')) return 0
  if (states.waiting > 0) return 1
  return countFailures(source) > 0 ? 2 : 3
}

const sourcesCard = (body: HtmlPart, retired: DashboardData['retired']): Html =>
  card('sources', 'Sources', [body, retiredNote(retired)], html`<a href="/failures">Failures by reason</a>`)

const sourcesTable = (
  data: DashboardData,
  followed: readonly string[],
  sources: readonly SourceOverview[],
  sort: SourceSort | null,
): Html =>
  dataTable<SourceOverview>(
    'Sources',
    sourceColumns(data, followed).map((column) => column && withSort(column, sort)),
    sources,
    { none: 'No configuration is loaded yet.' },
  )

/** Sources that left the configuration, folded to a line. */
const retiredNote = (retired: DashboardData['retired']): HtmlPart =>
  retired.length > 0 &&
  html`<details id="retired">
    <summary>Retired: ${foldNames(retired.map(({ source }) => source))}</summary>
    <p class="soft">
      ${listNames(retired.map(({ source, rows, deleted }) => `${source} (${pluralize(rows + deleted, 'row')})`))}:
      ${withCode(RETIRED_ADVICE)}.
    </p>
  </details>`

const withSort = (column: DataColumn<SourceOverview>, chosen: SourceSort | null) => {
  const name = parseSourceSort(column.name)
  if (name === null) return column
  const order = name === chosen ? SORTS[name].order : null
  return { ...column, sort: { url: buildUrl('/sources', { sort: name }), order } }
}

const sourceColumns = (
  { sources, readAt }: DashboardData,
  followed: readonly string[],
): (DataColumn<SourceOverview> | false)[] => [
  {
    name: 'source',
    kind: 'row',
    cell: ({ name, pause, breakage, backfill }) => [
      html`<a href="${sourceUrl(name)}">${nameText(name)}</a>`,
      followed.includes(name) && [' ', badge('live sync', 'quiet')],
      breakage !== null && [' ', badge('left out', 'bad')],
      pause !== null && [' ', badge('paused', 'warn'), pauseText(pause, readAt)],
      backfill !== null && html`<span class="soft note">${describeBackfill(backfill)}</span>`,
    ],
  },
  { name: 'filled', kind: 'wide', cell: fillRateCell },
  { name: 'rows', kind: 'number', cell: ({ states }) => formatCount(countRows(states)) },
  {
    name: 'waiting',
    kind: 'number',
    cell: ({ name, states }) =>
      countLink(states.waiting, buildUrl('/rows', { source: name, state: 'waiting' })),
  },
  {
    name: 'not enriched',
    kind: 'number',
    cell: (source) =>
      countLink(countFailures(source), buildUrl('/rows', { source: source.name, state: 'not_enriched' })),
  },
  sources.some((source) => countDeleted(source) > 0) && {
    name: 'deleted',
    kind: 'number',
    cell: (source) => [
      countLink(countDeleted(source), sourceUrl(source.name)),
      source.deleted.some(({ held }) => held !== null) && [' ', badge('held', 'warn')],
    ],
  },
  {
    name: 'last run',
    cell: ({ lastRun }) =>
      lastRun === null
        ? html`<span class="soft">none yet</span>`
        : html`<span class="short"
            ><a href="/runs/${lastRun.run}">${lastRun.run}</a>
            ${runOutcome(lastRun) === 'completed' ? timeAgo(lastRun.at, readAt) : stateBadge(runOutcome(lastRun))}</span
          >`,
  },
]

const countFailures = ({ states }: SourceOverview): number => countRows(states, FAILURE_STATES)

const countDeleted = ({ deleted }: SourceOverview): number => deleted.reduce((sum, one) => sum + one.rows, 0)

const lastRunAt = ({ lastRun }: SourceOverview): number => lastRun?.at.getTime() ?? 0

/** The share of a count's cells that hold a value, over some columns. */
const toShare = (
  sample: SourceOverview['fillRates'][number] | undefined,
  columns: readonly string[],
): number =>
  filledShare(
    sample?.eligible ?? 0,
    columns.map((column) => sample?.filled[column]),
  ) ?? 0

/** The last share; a source that was never counted comes last. */
const rankShare = ({ fillRates, columns }: SourceOverview): number =>
  fillRates.length === 0 ? 2 : toShare(fillRates.at(-1), columns)

/** How full a source is, and how that has changed. */
function fillRateCell(source: SourceOverview): HtmlPart {
  const { fillRates, columns } = source
  const [first, last] = [fillRates[0], fillRates.at(-1)]
  if (first === undefined) return html`<span class="soft">counted by the first run</span>`
  const now = toShare(last, columns)
  // Only columns that both counts have are compared: a newly mapped column is no change.
  const compared = columns.filter((column) => first.filled[column] !== undefined)
  const gain = toShare(last, compared) - toShare(first, compared)
  return html`<div class="filled">
    ${shareBar([
      { share: Math.min(now, now - gain), look: 'before' },
      { share: Math.max(0, gain), look: 'good' },
    ])}
    <span class="n">${formatPercent(now)}</span>
    <span class="n ${trendClass(gain)}">${formatPoints(gain)}</span>
  </div>`
}

/** Since when a source is paused, by whom, why and until when: runs skip it. */
export const pauseText = (
  { paused_at: at, paused_by: by, reason, resume_at: until }: NonNullable<SourceOverview['pause']>,
  now: number,
): Html =>
  html`<span class="soft pause">
    ${timeAgo(at, now)} by
    ${by}${reason !== null && `: ${reason}`}${until !== null && html`, resumes ${timeAgo(until, now)}`}</span
  >`

export const trendClass = (gain: number): string => (gain > 0 ? 'up' : gain < 0 ? 'down' : '')

/** `+31.2` in percentage points. */
export function formatPoints(gain: number): string {
  const rounded = (gain * 100).toFixed(1)
  if (Number(rounded) === 0) return '±0'
  return gain > 0 ? `+${rounded}` : rounded.replace('-', '−')
}
