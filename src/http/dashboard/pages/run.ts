import { ROW_STATES, type RowState, formatState } from '../../../domain/row.ts'
import { Run, runOutcome } from '../../../domain/run.ts'
import type { RowStateCounts } from '../../../store/rows.ts'
import {
  countRunRowsBySource,
  listRunChanges,
  readRunPhases,
  type RunPhases,
} from '../../../store/run-history.ts'
import { findRun } from '../../../store/runs.ts'
import { formatCount, formatDuration, pluralize } from '../../../util/format.ts'
import {
  card,
  clockTime,
  count,
  countLink,
  dataTable,
  definitionList,
  empty,
  pageHead,
  processName,
  stateBadge,
  withCode,
  sourceLink,
  sourceLinks,
} from '../components.ts'
import { countRows, funnelTable } from '../funnel.ts'
import type { DashboardDeps } from '../dashboard-app.ts'
import { type Html, type HtmlPart, buildUrl, hiddenPart, html, livePart } from '../html.ts'
import { missing, type Page, type PageRequest, parseId } from '../page.ts'
import { skippedCellsTable } from './failures.ts'
import { changesSection, type RunChangesData } from './run-changes.ts'
import { numbersSection, readSkippedCells, readSplit, readStates } from './run-totals.ts'
import { runKind } from './runs.ts'

const CHANGES_PAGE_SIZE = 25

interface RunPageData extends RunChangesData {
  readonly phases: RunPhases | null
  /** Rows of a run in progress, by source; null: it has ended. */
  readonly live: Readonly<Record<string, RowStateCounts>> | null
  readonly readAt: number
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** One run: what it was to do, how it went, what it wrote. */
export const runPage: Page = {
  path: '/runs/:id',
  isLive: true,
  show: async (request, deps) => {
    const data = await readRunPage(request, deps)
    const { run } = data
    return {
      title: `Run ${run.id}`,
      isFinal: !run.alive,
      body: html`${pageHead(['Run ', run.id, ' ', outcomeBadge(data)], runActions(data))}
        ${aboutSection(data)} ${bySourceSection(data)}
        <div class="grid">${rowsSection(data)}${numbersSection(run.totals)}</div>
        ${skippedSection(data)} ${changesSection(data)}`,
    }
  },
}

async function readRunPage(
  { params, query, canAct }: PageRequest,
  { db, sources }: DashboardDeps,
): Promise<RunPageData> {
  const id = parseId(params['id'])
  const run = id === null ? null : await findRun(db, id)
  if (id === null || run === null)
    throw missing(
      'No such run',
      html`There is no run ${params['id']}, or it was deleted as too old. <a href="/runs">All runs</a>`,
    )
  const after = parseId(query.get('after')) ?? 0
  const changes = await listRunChanges(db, id, after, CHANGES_PAGE_SIZE + 1)
  return {
    run,
    phases: await readRunPhases(db, id),
    live: run.alive ? await countRunRowsBySource(db, id) : null,
    changes: changes.slice(0, CHANGES_PAGE_SIZE),
    after,
    hasMore: changes.length > CHANGES_PAGE_SIZE,
    sources: sources(),
    readAt: Date.now(),
    canAct,
  }
}

const outcomeBadge = ({ run }: RunPageData): Html =>
  livePart('outcome', html`<span id="outcome">${stateBadge(runOutcome(run))}</span>`)

function runActions({ run, canAct }: RunPageData): Html {
  const { id, state, options, sources } = run
  const again = new URLSearchParams(sources.map((name): [string, string] => ['source', name]))
  if (options.budget !== null) again.set('budget', String(options.budget))
  if (options.limit !== null) again.set('limit', String(options.limit))
  if (options.where !== null) again.set('where', options.where)
  again.set('route', options.route)
  const isOrdinary = options.undoes === undefined && options.remap !== true && options.follow !== true
  const isRunning = state === Run.running
  return livePart(
    'actions',
    html`<p id="actions" class="actions">
      ${
        canAct && [
          isRunning && html`<a class="button" href="/runs/${id}/cancel">Cancel</a>`,
          !isRunning && isOrdinary && html`<a class="button" href="/runs/new?${String(again)}">Run again</a>`,
        ]
      }
    </p>`,
  )
}

function aboutSection({ run, phases, readAt }: RunPageData): Html {
  const { options, started_at: started, finished_at: finished } = run
  const end = finished?.getTime() ?? readAt
  return card('about', 'Progress', [
    html`<div class="columns">
      ${definitionList([
        ['Started', clockTime(started)],
        [
          finished === null ? 'Running for' : 'Ended',
          finished === null ? formatDuration(end - started.getTime()) : clockTime(finished),
        ],
        ['Duration', finished === null ? null : formatDuration(end - started.getTime())],
        ['Reason', run.reason === null ? null : withCode(run.reason)],
        ['Cancelled by', run.cancelled_by],
      ])}
      ${definitionList([
        ['Kind', runKind(run)],
        ['Sources', sourceLinks(run.sources)],
        ['Budget', options.budget === null ? 'unlimited' : pluralize(options.budget, 'lookup')],
        ['Limit', options.limit === null ? null : `${formatCount(options.limit)} rows of each source`],
        ['Where', options.where === null ? null : html`<code>${options.where}</code>`],
        ['Route', options.route === 'auto' ? null : options.route],
        ['Process', phases === null ? null : html`<code>${processName(phases.owner)}</code>`],
        ['Version', run.version],
      ])}
    </div>`,
    phases !== null && phaseBars(run.started_at.getTime(), end, phases),
  ])
}

/** Picking and writing on one time axis. */
function phaseBars(
  from: number,
  to: number,
  { pickingFinishedAt, firstWriteAt, lastWriteAt }: RunPhases,
): HtmlPart {
  const phases: (readonly [string, number, number])[] = [
    ['Picking rows', from, pickingFinishedAt?.getTime() ?? to],
    ...(firstWriteAt !== null && lastWriteAt !== null
      ? [
          ['Until the first write', from, firstWriteAt.getTime()] as const,
          ['Writing', firstWriteAt.getTime(), lastWriteAt.getTime()] as const,
        ]
      : []),
  ]
  const length = Math.max(1, to - from)
  const share = (ms: number): number => Math.max(0, Math.min(100, (ms / length) * 100))
  return html`<table class="phases">
    <caption class="sr">
      Phases of the run
    </caption>
    <tbody>
      ${phases.map(
        ([name, begin, end]) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td class="n">${formatDuration(Math.max(0, end - begin))}</td>
            <td class="wide">
              <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect class="track" width="100" height="10" />
                <rect
                  class="flow"
                  x="${Math.min(99, share(begin - from)).toFixed(2)}"
                  width="${Math.max(0.6, share(end - begin)).toFixed(2)}"
                  height="10"
                />
              </svg>
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

function bySourceSection({ run, live }: RunPageData): Html {
  const split = live ?? readSplit(run.totals)
  const lines = run.sources.flatMap((name) => (split?.[name] ? [{ name, states: split[name] }] : []))
  if (run.sources.length < 2 || lines.length === 0) return hiddenPart('by-source')
  const present = ROW_STATES.filter((state) => lines.some(({ states }) => states[state] > 0))
  return card(
    'by-source',
    'By source',
    dataTable(
      'Rows of the run by source and state',
      [
        {
          name: 'source',
          kind: 'row',
          cell: ({ name }) => sourceLink(name),
        },
        {
          name: 'picked',
          kind: 'number',
          cell: ({ states }) => formatCount(countRows(states)),
        },
        ...present.map((state) => ({
          name: formatState(state),
          kind: 'number' as const,
          cell: ({ name, states }: (typeof lines)[number]) =>
            run.options.dry === true
              ? count(states[state])
              : countLink(states[state], rowsUrl(run.id, state, name)),
        })),
      ],
      lines,
    ),
  )
}

const rowsUrl = (run: number, state: RowState | null, source: string | null = null): string =>
  buildUrl('/rows', { source, state, run: String(run) })

function rowsSection({ run, live }: RunPageData): Html {
  const states = live === null ? readStates(run.totals) : sumStates(Object.values(live))
  const isDry = run.options.dry === true
  return card(
    'rows',
    isDry ? 'Projected rows' : 'Rows',
    states === null
      ? empty('It picked no rows.')
      : funnelTable(isDry ? 'What a run would do' : 'From picked to enriched', states, (state) =>
          isDry ? null : rowsUrl(run.id, state),
        ),
    states !== null && !isDry && html`<a href="${rowsUrl(run.id, null)}">List these rows</a>`,
  )
}

const sumStates = (counts: readonly RowStateCounts[]): RowStateCounts =>
  Object.fromEntries(
    ROW_STATES.map((state) => [state, counts.reduce((sum, one) => sum + one[state], 0)]),
  ) as RowStateCounts

function skippedSection({ run }: RunPageData): HtmlPart {
  const skipped = readSkippedCells(run.totals)
  return (
    skipped.length > 0 &&
    card(
      'skipped',
      run.options.dry === true ? 'Cells that would be skipped' : 'Skipped cells',
      skippedCellsTable(skipped),
    )
  )
}
