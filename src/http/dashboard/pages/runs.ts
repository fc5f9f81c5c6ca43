import type { RunReport, ServiceReport } from '../../../domain/report/run.ts'
import { listRunOverviews, type RunOverview } from '../../../actions/dashboard-data.ts'
import { Run, type StoredRunOptions } from '../../../domain/run.ts'
import { describeRunKind, readTotal, runOutcome, readServiceTotals } from '../../../domain/stored-run.ts'
import { readUndone, type LivingRun } from '../../../store/runs.ts'
import { formatCount, formatDuration, formatMoney, pluralize } from '../../../util/text.ts'
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
  card,
  clockTime,
  definitionList,
  withCode,
  statesTable,
} from '../components.ts'
import { daemonNotice } from '../actions/start-run.ts'
import { buildUrl, html, type Markup, type HtmlPart } from '../html.ts'
import { parseId, requireRun, type Page, type DashboardDeps, type PageRequest } from '../page.ts'
import { ROW_STATES, type RowState } from '../../../domain/row.ts'
import { countRowStates, type RowStateCounts } from '../../../store/rows.ts'

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

/** Runs with their results, newest first. */
export function runsTable(list: readonly RunOverview[], readAt: number): Markup {
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
      { name: 'kind', cell: describeRunKind },
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

interface RunPageData {
  readonly run: LivingRun
  /** The run that has undone it. */
  readonly undoneBy: number | null
  /** Rows of a run in progress; null: it has ended. */
  readonly live: RowStateCounts | null
  readonly readAt: number
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** One run: what it was to do, how it went, what each service did. */
export const runPage: Page = {
  path: '/runs/:id',
  isLive: true,
  show: async (request, deps) => {
    const data = await readRunPage(request, deps)
    const { run } = data
    return {
      title: `Run ${run.id}`,
      isFinal: !run.alive,
      body: html`${pageHead(['Run ', run.id, ' ', stateBadge(runOutcome(run))], runActions(data))}
        ${aboutSection(data)}
        <div class="grid">${rowsSection(data)}${numbersSection(run)}</div>`,
    }
  },
}

async function readRunPage(request: PageRequest, deps: DashboardDeps): Promise<RunPageData> {
  const run = await requireRun(request, deps)
  return {
    run,
    undoneBy: (await readUndone(deps.db)).get(run.id) ?? null,
    live: run.alive ? await countRowStates(deps.db, { run: run.id }) : null,
    readAt: Date.now(),
    canAct: request.canAct,
  }
}

function runActions({ run, canAct }: RunPageData): HtmlPart {
  if (!canAct) return null
  return (
    run.state === Run.running &&
    html`<p class="actions"><a class="button" href="/runs/${run.id}/cancel">Cancel</a></p>`
  )
}

function aboutSection({ run, undoneBy, readAt }: RunPageData): Markup {
  const { id, options, started_at: started, finished_at: finished } = run
  const lasted = formatDuration((finished?.getTime() ?? readAt) - started.getTime())
  const hasWritten = (readTotal(run.totals, 'cells', 'written') ?? 0) > 0 && options.dry !== true
  return card('about', 'Progress', [
    html`<div class="columns">
      ${definitionList([
        ['Started', clockTime(started)],
        [
          finished === null ? 'Running for' : 'Ended',
          finished === null ? lasted : html`${clockTime(finished)}, after ${lasted}`,
        ],
        ['Reason', run.reason === null ? null : withCode(run.reason)],
        ['Cancelled by', run.cancelled_by],
        ['Undone by', undoneBy === null ? null : html`<a href="/runs/${undoneBy}">run ${undoneBy}</a>`],
      ])}
      ${definitionList([
        ['Kind', describeRunKind(run)],
        ['Sources', sourceLinks(run.sources)],
        ['Budget', describeBudget(options)],
        ['Limit', options.limit === null ? null : `${formatCount(options.limit)} rows of each source`],
        ['Where', options.where === null ? null : html`<code>${options.where}</code>`],
      ])}
    </div>`,
    !run.alive &&
      hasWritten &&
      undoneBy === null &&
      html`<p class="sub"><code>fillrate undo ${id} --yes</code> undoes the run.</p>`,
  ])
}

const describeBudget = ({ budget, money }: StoredRunOptions): string => {
  if (money !== undefined) return formatMoney(money)
  return budget === null ? 'unlimited' : pluralize(budget, 'lookup')
}

/** What each of several services did. */
const servicesTable = (services: readonly ServiceReport[]): HtmlPart =>
  services.length > 0 &&
  dataTable<ServiceReport>(
    'Services of the run',
    [
      { name: 'service', kind: 'row', cell: ({ service }) => service },
      { name: 'state', cell: ({ status }) => stateBadge(status) },
      { name: 'requested', kind: 'number', cell: ({ lookups }) => formatCount(lookups.requested) },
      { name: 'found', kind: 'number', cell: ({ lookups }) => formatCount(lookups.found) },
      { name: 'cells', kind: 'number', cell: ({ cells }) => formatCount(cells.written) },
      { name: 'cost', kind: 'number', cell: ({ spend }) => spend.cost && formatMoney(spend.cost) },
    ],
    services,
  )

const rowsUrl = (run: number, state: RowState | null): string =>
  buildUrl('/rows', { state, run: String(run) })

function rowsSection({ run, live }: RunPageData): Markup {
  const states = live ?? readStates(run.totals)
  const isDry = run.options.dry === true
  return card(
    'rows',
    isDry ? 'Projected rows' : 'Rows',
    states === null
      ? empty('It picked no rows.')
      : statesTable(isDry ? 'What a run would do' : 'Rows of the run by state', states, (state) =>
          isDry ? null : rowsUrl(run.id, state),
        ),
    states !== null && !isDry && html`<a href="${rowsUrl(run.id, null)}">List these rows</a>`,
  )
}

// The report of a run, as it is stored. Another version may have stored another shape.

/** The numbers of a run's report, and beside them what each of several services did. */
const numbersSection = ({ totals }: LivingRun): Markup =>
  card(
    'numbers',
    'Lookups, calls and cells',
    totals === null
      ? empty('Counted when the run ends.')
      : [
          definitionList(
            NUMBERS.map(([label, part, field]) => {
              const value = readTotal(totals, part, field)
              return [label, value === 0 ? null : count(value)]
            }),
          ),
          servicesTable(readServiceTotals(totals)),
        ],
  )

/** A label and the number of the report that it shows. */
type ReportNumber = {
  [Part in 'lookups' | 'requests' | 'cells']: readonly [
    label: string,
    part: Part,
    field: string & keyof RunReport[Part],
  ]
}['lookups' | 'requests' | 'cells']

const NUMBERS: readonly ReportNumber[] = [
  ['Lookups requested', 'lookups', 'requested'],
  ['Answered earlier', 'lookups', 'stored'],
  ['Found', 'lookups', 'found'],
  ['No match', 'lookups', 'not_found'],
  ['In doubt', 'lookups', 'in_doubt'],
  ['Calls to be retried', 'requests', 'retried'],
  ['Throttled (429)', 'requests', 'throttled'],
  ['Cells written', 'cells', 'written'],
  ['Cells protected', 'cells', 'protected'],
  ['Cells skipped', 'cells', 'skipped'],
]

function readStates(totals: unknown): RowStateCounts | null {
  if (!readTotal(totals, 'rows', 'picked')) return null
  return Object.fromEntries(
    ROW_STATES.map((state) => [state, readTotal(totals, 'rows', state) ?? 0]),
  ) as RowStateCounts
}
