import { ROW_STATES, type RowState, formatState } from '../../../domain/row.ts'
import { Run, runOutcome } from '../../../domain/run.ts'
import type { RowStateCounts } from '../../../store/rows.ts'
import type { RunChange, RunPhases } from '../../../store/run-history.ts'
import type { StoredRun } from '../../../store/runs.ts'
import { formatCount, formatDuration, pluralize } from '../../../util/format.ts'
import {
  breakable,
  card,
  clockTime,
  count,
  countLink,
  dataTable,
  definitionList,
  empty,
  pageHead,
  stateBadge,
  nameText,
  withCode,
  sourceLink,
  sourceLinks,
} from '../components.ts'
import { funnelTable } from '../funnel.ts'
import { type Html, type HtmlPart, buildUrl, html, rowUrl } from '../html.ts'
import { skippedCellsTable } from './failures.ts'
import { displayValue } from './row.ts'
import { pageLinks } from './rows.ts'
import { numbersSection, readSkippedCells, readSplit, readStates } from './run-totals.ts'
import { runKind } from './runs.ts'
import { processName } from './schedule.ts'

export const CHANGES_PAGE_SIZE = 25

export interface RunPageData {
  readonly run: StoredRun & { readonly alive: boolean }
  readonly phases: RunPhases | null
  /** Rows of a run in progress, by source; null: it has ended. */
  readonly live: Readonly<Record<string, RowStateCounts>> | null
  /** One page of what it has written. */
  readonly changes: readonly RunChange[]
  /** The id before the first one of the page; 0: the first page. */
  readonly after: number
  readonly hasMore: boolean
  /** The columns that each source fills. */
  readonly outputs: ReadonlyMap<string, ReadonlySet<string>>
  readonly readAt: number
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** One run: what it was to do, how it went, what it wrote. */
export const runPage = (data: RunPageData): Html =>
  html`${pageHead(['Run ', data.run.id, ' ', outcomeBadge(data)], runActions(data))} ${aboutSection(data)}
    ${bySourceSection(data)}
    <div class="grid">${rowsSection(data)}${numbersSection(data.run.totals)}</div>
    ${skippedSection(data)} ${changesSection(data)}`

/** The live parts, by the id of the element that each replaces. */
export const runParts = (data: RunPageData): ReadonlyMap<string, Html> =>
  new Map([
    ['outcome', outcomeBadge(data)],
    ['actions', runActions(data)],
    ['about', aboutSection(data)],
    ['by-source', bySourceSection(data)],
    ['rows', rowsSection(data)],
    ['numbers', numbersSection(data.run.totals)],
    ['changes', changesSection(data)],
  ])

const outcomeBadge = ({ run }: RunPageData): Html =>
  html`<span id="outcome">${stateBadge(runOutcome(run))}</span>`

function runActions({ run: { id, state, options, sources }, canAct }: RunPageData): Html {
  const again = new URLSearchParams(sources.map((name): [string, string] => ['source', name]))
  if (options.budget !== null) again.set('budget', String(options.budget))
  if (options.limit !== null) again.set('limit', String(options.limit))
  if (options.where !== null) again.set('where', options.where)
  again.set('route', options.route)
  const isOrdinary = options.undoes === undefined && options.remap !== true && options.follow !== true
  const isRunning = state === Run.running
  return html`<p id="actions" class="actions">
    ${
      canAct && [
        isRunning && html`<a class="button" href="/runs/${id}/cancel">Cancel</a>`,
        !isRunning && isOrdinary && html`<a class="button" href="/runs/new?${String(again)}">Run again</a>`,
        !isRunning && options.dry !== true && html`<a class="button" href="/runs/${id}/undo">Undo</a>`,
      ]
    }
  </p>`
}

function aboutSection({ run, phases, readAt }: RunPageData): Html {
  const { options, started_at: started, finished_at: finished } = run
  const end = finished?.getTime() ?? readAt
  return card('about', 'Progress', [
    html`<div class="columns even">
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
  if (run.sources.length < 2 || lines.length === 0) return html`<div id="by-source" hidden></div>`
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
          cell: ({ states }) => formatCount(Object.values(states).reduce((a, b) => a + b, 0)),
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

/** What it has written, with the values before and after. */
function changesSection({ run, changes, after, hasMore, outputs }: RunPageData): Html {
  if (run.options.dry === true) return html`<div id="changes" hidden></div>`
  const last = changes.at(-1)
  return card(
    'changes',
    'Rows written',
    changes.length === 0
      ? empty(after > 0 ? 'No more.' : run.alive ? 'Nothing yet.' : 'It has written nothing.')
      : [
          dataTable<RunChange>(
            'Values before and after',
            [
              {
                name: 'row',
                kind: 'row',
                cell: (change) =>
                  html`<a href="${rowUrl(change)}">${nameText(change.key)}</a
                    >${run.sources.length > 1 && html` <span class="soft">${breakable(change.source)}</span>`}`,
              },
              { name: 'written', cell: ({ writtenAt }) => clockTime(writtenAt) },
              {
                name: 'before → after',
                kind: 'text',
                cell: (change) => cellChanges(change, outputs.get(change.source)),
              },
            ],
            changes,
          ),
          pageLinks(
            after > 0 ? `/runs/${run.id}#changes` : null,
            hasMore && last !== undefined ? `/runs/${run.id}?after=${last.id}#changes` : null,
          ),
        ],
    changes.length > 0 && html`<a href="/runs/${run.id}/changes.csv" download>Download CSV</a>`,
  )
}

/** What a write changed. Of columns that are only touched, such as `updated_at`, the names alone. */
function cellChanges({ before, after, isUndone }: RunChange, outputs: ReadonlySet<string> | undefined): Html {
  const columns = Object.keys(after)
  const touched = outputs === undefined ? [] : columns.filter((column) => !outputs.has(column))
  return html`<ul class="diff">
    ${columns
      .filter((column) => !touched.includes(column))
      .map(
        (column) =>
          html`<li>
            <span class="soft">${breakable(column)}</span> ${displayValue(before[column])} →
            ${isUndone ? html`<s>${displayValue(after[column])}</s>` : html`<strong>${displayValue(after[column])}</strong>`}
          </li>`,
      )}
    ${touched.length > 0 && html`<li class="soft">touched: ${touched.join(', ')}</li>`}
    ${isUndone && html`<li class="soft">undone since, in all cells or some</li>`}
  </ul>`
}
