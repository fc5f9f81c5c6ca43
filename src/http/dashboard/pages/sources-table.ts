import type { DashboardData, SourceOverview, Verdict } from '../../../actions/dashboard-data.ts'
import { describeBackfill, filledShare } from '../../../domain/backfill.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'
import { runOutcome } from '../../../domain/run.ts'
import { formatCount, formatPercent } from '../../../util/format.ts'
import { badge, card, countLink, dataTable, nameText, shareBar, stateBadge, timeAgo } from '../components.ts'
import { buildUrl, html, sourceUrl, type Html, type HtmlPart } from '../html.ts'
import { countRows } from '../row-states.ts'
import { findBreakage } from './verdict.ts'

/**
 * All sources with their fill rates.
 * @param followed those that live sync watches
 */
export const sourcesCard = (
  { sources, readAt: now }: DashboardData,
  { conditions }: Pick<Verdict, 'conditions'>,
  followed: readonly string[],
): Html =>
  card(
    'sources',
    'Sources',
    dataTable<SourceOverview>(
      'Sources',
      [
        {
          name: 'source',
          kind: 'row',
          cell: ({ name, pause, backfill }) => [
            html`<a href="${sourceUrl(name)}">${nameText(name)}</a>`,
            followed.includes(name) && [' ', badge('live sync', 'quiet')],
            findBreakage(conditions, name) && [' ', badge('left out', 'bad')],
            pause !== null && [' ', badge('paused', 'warn'), pauseText(pause, now)],
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
            countLink(
              countFailures(source),
              buildUrl('/rows', { source: source.name, state: 'not_enriched' }),
            ),
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
                  ${runOutcome(lastRun) === 'completed' ? timeAgo(lastRun.at, now) : stateBadge(runOutcome(lastRun))}</span
                >`,
        },
      ],
      sources,
      { none: 'No configuration is loaded yet.' },
    ),
  )

const countFailures = ({ states }: SourceOverview): number => countRows(states, FAILURE_STATES)

const countDeleted = ({ deleted }: SourceOverview): number => deleted.reduce((sum, one) => sum + one.rows, 0)

/** The share of a count's cells that hold a value, over some columns; null: there are none. */
const toShare = (count: SourceOverview['fillRates'][number], columns: readonly string[]): number | null =>
  filledShare(
    count.eligible,
    columns.map((column) => count.filled[column]),
  )

/** How full a source is, and how that has changed between the counts of its runs. */
function fillRateCell({ fillRates, columns }: SourceOverview): HtmlPart {
  const [first, last] = [fillRates[0], fillRates.at(-1)]
  const now = last === undefined ? null : toShare(last, columns)
  if (first === undefined || last === undefined || now === null) return html`<span class="soft">–</span>`
  // Only columns that both counts have are compared: a newly mapped column is no change.
  const compared = columns.filter((column) => first.filled[column] !== undefined)
  const gain = (toShare(last, compared) ?? 0) - (toShare(first, compared) ?? 0)
  return html`<div class="filled">
    ${shareBar([
      { share: Math.min(now, now - gain), look: 'before' },
      { share: Math.max(0, gain), look: 'good' },
    ])}
    <span class="n">${formatPercent(now)}</span>
    ${fillRates.length > 1 && html`<span class="n ${trendClass(gain)}">${formatPoints(gain)}</span>`}
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
