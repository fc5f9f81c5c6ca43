import { listRunOverviews, type RunOverview } from '../../../actions/dashboard-data.ts'
import { readTotal, runOutcome } from '../../../domain/run.ts'
import type { StoredRun } from '../../../store/runs.ts'
import { formatCount, formatDuration } from '../../../util/format.ts'
import {
  clamped,
  count,
  dataTable,
  empty,
  pageHead,
  pageLinks,
  sourceLink,
  sourceLinks,
  stateBadge,
  timeAgo,
  countRows,
} from '../components.ts'
import { daemonNotice } from '../actions/start-run.ts'
import { buildUrl, html, type Html, type HtmlPart } from '../html.ts'
import { parseId, type Page } from '../page.ts'

const PAGE_SIZE = 50

export const START_RUN = html`<a class="button primary" href="/runs/new">Start a run</a>`

const REQUESTED = html`<p class="notice good" role="status">
  The run is requested: it is listed here within seconds, as soon as a process has taken it. What becomes of
  it is on <a href="/system">System</a>, too.
</p>`

/** All runs, or those of a source. */
export const runsPage: Page = {
  path: '/runs',
  name: 'Runs',
  isLive: true,
  show: async ({ query, canAct }, { db }) => {
    const source = query.get('source') || null
    const before = parseId(query.get('before'))
    const list = await listRunOverviews(db, source, before, PAGE_SIZE + 1)
    const runs = list.slice(0, PAGE_SIZE)
    const last = list.length > PAGE_SIZE ? runs.at(-1) : undefined
    return {
      body: html`${pageHead('Runs', canAct && START_RUN)}
        ${query.has('requested') && ((await daemonNotice(db)) ?? REQUESTED)}
        ${source !== null && html`<p class="sub">Only runs of ${sourceLink(source)}. <a href="/runs">All runs</a></p>`}
        <section id="runs" class="card" aria-label="Runs">
          ${runsTable(runs, Date.now())}
          ${pageLinks(
            before === null ? null : buildUrl('/runs', { source }),
            last === undefined ? null : buildUrl('/runs', { source, before: String(last.id) }),
          )}
        </section>`,
    }
  },
}

/** The kind of a run, if it is not an ordinary one; else its trigger. */
export function runKind({ options: { dry, undoes, remap }, trigger }: StoredRun): string {
  if (undoes !== undefined) return `undo of run ${undoes}`
  if (remap === true) return 'remap'
  return dry === true ? 'dry' : trigger
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
      { name: 'sources', cell: ({ sources }) => sourceLinks(sources) },
      { name: 'started', cell: (run) => timeAgo(run.started_at, readAt) },
      {
        name: 'duration',
        kind: 'number',
        cell: (run) => formatDuration((run.finished_at?.getTime() ?? readAt) - run.started_at.getTime()),
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
