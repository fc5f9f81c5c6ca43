import { Run, readTotal, runOutcome, type Trigger } from '../../../domain/run.ts'
import { listRunOverviews, type RunOverview } from '../../../actions/dashboard-data.ts'
import type { RunFilter } from '../../../store/run-history.ts'
import type { StoredRun } from '../../../store/runs.ts'
import { formatCount, formatDuration } from '../../../util/format.ts'
import {
  card,
  clamped,
  count,
  dataTable,
  empty,
  pageHead,
  pageLinks,
  selectField,
  stateBadge,
  stateTone,
  timeAgo,
  sourcesCell,
} from '../components.ts'
import { countRows } from '../funnel.ts'
import { type Html, type HtmlPart, buildUrl, html } from '../html.ts'
import { type Page, parseId } from '../page.ts'

const PAGE_SIZE = 50

export const START_RUN = html`<a class="button primary" href="/runs/new">Start a run</a>`

interface RunsPageData {
  /** Newest first. */
  readonly runs: readonly RunOverview[]
  readonly filter: RunFilter
  readonly isFirstPage: boolean
  readonly hasMore: boolean
  readonly readAt: number
}

/** All runs. */
export const runsPage: Page = {
  path: '/runs',
  name: 'Runs',
  isLive: true,
  show: async ({ query, canAct }, { db, sources }) => {
    const filter: RunFilter = {
      source: query.get('source') || null,
      state: RUN_STATES.find((one) => one === query.get('state')) ?? null,
      trigger: TRIGGERS.find((one) => one === query.get('trigger')) ?? null,
    }
    const before = parseId(query.get('before'))
    const list = await listRunOverviews(db, filter, before, PAGE_SIZE + 1)
    const isFirstPage = before === null
    const runs = list.slice(0, PAGE_SIZE)
    return {
      body: html`${pageHead('Runs', canAct && START_RUN)} ${runFilterForm(filter, [...sources().keys()])}
      ${runListSection({ runs, filter, isFirstPage, hasMore: list.length > PAGE_SIZE, readAt: Date.now() })}`,
    }
  },
}

function runListSection({ runs: list, filter, isFirstPage, hasMore, readAt }: RunsPageData): Html {
  const last = list.at(-1)
  const query = { ...filter }
  return card('runs', 'All runs', [
    isFirstPage && list.length > 1 && timeline(list, readAt),
    runsTable(list, readAt),
    pageLinks(
      isFirstPage ? null : buildUrl('/runs', query),
      hasMore && last !== undefined ? buildUrl('/runs', { ...query, before: String(last.id) }) : null,
    ),
  ])
}

const TRIGGERS = ['manual', 'schedule', 'follow', 'backfill'] as const satisfies readonly Trigger[]
const RUN_STATES = Object.values(Run)

function runFilterForm({ source, trigger, state }: RunFilter, sources: readonly string[]): Html {
  const choice = (name: string, label: string, chosen: string | null, values: readonly string[]) =>
    selectField(name, label, chosen, [['', 'all'], ...values.map((value) => [value, value] as const)])
  return html`<form class="filters card" action="/runs" aria-label="Filter">
    ${choice('source', 'Source', source, sources)} ${choice('trigger', 'Started by', trigger, TRIGGERS)}
    ${choice('state', 'State', state, RUN_STATES)}
    <div class="form-actions"><button>Show</button> <a href="/runs">Clear</a></div>
  </form>`
}

const endTime = (run: StoredRun, now: number): number => run.finished_at?.getTime() ?? now

/** The kind of a run, if it is not an ordinary one; else its trigger. */
export function runKind({ options: { dry, undoes, remap }, trigger }: StoredRun): string {
  if (undoes !== undefined) return `undo of run ${undoes}`
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

function timeline(list: readonly RunOverview[], readAt: number): Html {
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
          class="${stateTone(runOutcome(run))}"
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

/** Runs with their results, newest first. */
export function runsTable(list: readonly RunOverview[], readAt: number): Html {
  if (list.length === 0)
    return empty(
      html`No runs yet. <code>fillrate plan</code> estimates one, <code>fillrate run</code> starts one.`,
    )
  // Projected numbers of a dry run could be mistaken for real ones.
  const unlessDry = (run: RunOverview, n: number | null): HtmlPart =>
    run.options.dry === true ? null : count(n)
  return dataTable<RunOverview>(
    'Runs and their results',
    [
      {
        name: 'run',
        kind: 'row',
        cell: ({ id }) => html`<span class="phone">Run </span><a href="/runs/${id}">${id}</a>`,
      },
      { name: 'state', cell: (run) => stateBadge(runOutcome(run)) },
      { name: 'kind', cell: runKind },
      { name: 'sources', cell: ({ sources }) => sourcesCell(sources) },
      { name: 'started', cell: (run) => timeAgo(run.started_at, readAt) },
      {
        name: 'duration',
        kind: 'number',
        cell: (run) => formatDuration(endTime(run, readAt) - run.started_at.getTime()),
      },
      {
        name: 'picked',
        kind: 'number',
        cell: ({ states, totals }) => count(states ? countRows(states) : readTotal(totals, 'rows', 'picked')),
      },
      {
        name: 'enriched',
        kind: 'number',
        cell: (run) => unlessDry(run, run.states?.enriched ?? readTotal(run.totals, 'rows', 'enriched')),
      },
      {
        name: 'cells',
        kind: 'number',
        cell: (run) => unlessDry(run, readTotal(run.totals, 'cells', 'written')),
      },
      {
        name: 'lookups',
        kind: 'number',
        cell: ({ spend }) => (spend.calls === 0 ? null : formatCount(spend.lookups)),
      },
      { name: 'reason', kind: 'text', cell: ({ reason }) => clamped(reason) },
    ],
    list,
  )
}
