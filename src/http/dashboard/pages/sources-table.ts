import type { DashboardData, SourceOverview, Verdict } from '../../../actions/dashboard-data.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'
import { runOutcome } from '../../../domain/run.ts'
import { filledShare, formatCount, formatPercent } from '../../../util/format.ts'
import {
  badge,
  card,
  countLink,
  dataTable,
  nameText,
  shareBar,
  stateBadge,
  timeAgo,
  countRows,
} from '../components.ts'
import { buildUrl, html, sourceUrl, type Html, type HtmlPart } from '../html.ts'
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
          cell: ({ name, pause }) => [
            html`<a href="${sourceUrl(name)}">${nameText(name)}</a>`,
            followed.includes(name) && [' ', badge('live sync', 'quiet')],
            findBreakage(conditions, name) && [' ', badge('left out', 'bad')],
            pause !== null && [' ', badge('paused', 'warn'), pauseText(pause, now)],
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

/** How full a source is, at the last count of a run. Its page says how that has changed. */
function fillRateCell({ fillRates, columns }: SourceOverview): HtmlPart {
  const last = fillRates.at(-1)
  const filled = columns.map((column) => last?.filled[column])
  const share = last === undefined ? null : filledShare(last.eligible, filled)
  if (share === null) return html`<span class="soft">–</span>`
  return html`<div class="filled">
    ${shareBar([{ share, look: 'good' }])} <span class="n">${formatPercent(share)}</span>
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
