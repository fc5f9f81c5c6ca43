import { readSourceOverview, type SourceOverview } from '../../../actions/dashboard-data.ts'
import type { RowState } from '../../../domain/row.ts'
import { describeCondition } from '../../../domain/condition.ts'
import { countFailureReasons, type FailureReason } from '../../../store/failures.ts'
import { formatCount, formatDuration, pluralize } from '../../../util/format.ts'
import {
  badge,
  breakable,
  card,
  empty,
  pageHead,
  percentOfTotal,
  ratio,
  shareBar,
  sparkline,
  timeAgo,
  withCode,
} from '../components.ts'
import { countRows, funnelTable } from '../funnel.ts'
import { buildUrl, hiddenPart, html, livePart, sourceUrl, type Html } from '../html.ts'
import { missing, type Page } from '../page.ts'
import { reasonsTable, retryLink } from './failures.ts'
import { formatPoints, pauseText, trendClass } from './sources.ts'

interface SourcePageData {
  readonly source: SourceOverview
  readonly readAt: number
  readonly reasons: readonly FailureReason[]
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** One source: its fill rates over time, its rows by state, why some are not enriched. */
export const sourcePage: Page = {
  path: '/sources/:source',
  isLive: true,
  show: async ({ params, canAct }, { db, sources }) => {
    const { source: name = '' } = params
    const source = sources().get(name)
    if (source === undefined)
      throw missing(
        'No such source',
        html`The configuration has no source <strong>${name}</strong>. <a href="/sources">All sources</a>`,
      )
    const data: SourcePageData = {
      source: await readSourceOverview(db, source),
      reasons: await countFailureReasons(db, { source: name, states: null }),
      readAt: Date.now(),
      canAct,
    }
    return {
      title: name,
      body: html`${pageHead(name, sourceActions(data))} ${aboutSource(data)} ${deletedSection(data)}
        <div class="grid">${fillRatesSection(data)}${sourceRowsSection(data)}</div>
        ${sourceFailures(data)}`,
    }
  },
}

function aboutSource({ source, readAt }: SourcePageData): Html {
  const { kind, table, pause, breakage, lastRun, name } = source
  return livePart(
    'about',
    html`<p id="about" class="sub about">
      ${kind} · <code>${table}</code>
      ${lastRun !== null && html` · <a href="${buildUrl('/runs', { source: name })}">runs</a>, the last ${timeAgo(lastRun.at, readAt)}`}
      ${breakage !== null && [' · ', badge('left out', 'bad'), breakageText(breakage, readAt)]}
      ${pause !== null && [' · ', badge('paused', 'warn'), pauseText(pause, readAt)]}
    </p>`,
  )
}

/** Why a source is left out, since when, and what to do. */
function breakageText(breakage: NonNullable<SourcePageData['source']['breakage']>, now: number): Html {
  const { title, mend: action } = describeCondition(breakage, now)
  return html`<span class="soft">${timeAgo(breakage.since, now)}: ${title}. ${withCode(action)}</span>`
}

/** Rows that the table no longer has: nothing else on the page counts them. */
function deletedSection({ source: { name, deleted }, readAt }: SourcePageData): Html {
  if (deleted.length === 0) return hiddenPart('deleted')
  return card('deleted', 'Deleted rows', [
    deleted.map(
      ({ rows, since, is_kept: isKept, held }) =>
        html`<p>
          <b>${pluralize(rows, 'row')}</b> ${rows === 1 ? 'is' : 'are'} gone from the table; the first was
          noticed ${timeAgo(since, readAt)}.
          ${
            held === null
              ? isKept
                ? ['What is stored of them is kept, as ', withCode("`onDelete: 'keep'`"), ' says.']
                : 'What is stored of them is erased an hour after they were noticed; rows that come back are restored.'
              : [badge('held', 'warn'), ' ', withCode(held), '.']
          }
        </p>`,
    ),
    html`<p class="sub"><code>fillrate forget --deleted ${name}</code> erases it now.</p>`,
  ])
}

const fillRatesSection = ({ source, readAt }: SourcePageData): Html =>
  card('fill-rates', 'Fill rates', fillRateTable(source, readAt))

function sourceRowsSection({ source: { name, states } }: SourcePageData): Html {
  const link = (state: RowState): string => buildUrl('/rows', { source: name, state })
  return card(
    'rows',
    'Rows',
    countRows(states) === 0
      ? empty(
          html`No rows picked yet. <code>fillrate plan ${name}</code> shows what a run would do,
            <code>fillrate run ${name}</code> does it.`,
        )
      : funnelTable('From picked to enriched', states, link),
    html`<a href="${buildUrl('/rows', { source: name })}">All rows</a>`,
  )
}

const sourceFailures = ({ reasons, canAct, source }: SourcePageData): Html =>
  card(
    'reasons',
    'Not enriched, by reason',
    reasons.length === 0 ? empty('No failed rows.') : reasonsTable(reasons, { isSourceShown: false, canAct }),
    canAct && retryLink(reasons, { source: source.name }),
  )

function sourceActions({ source: { name, pause }, canAct }: SourcePageData): Html {
  const verb = pause === null ? 'pause' : 'resume'
  return livePart(
    'actions',
    html`<p id="actions" class="actions">
      ${
        canAct && [
          html`<a class="button" href="${sourceUrl(name)}/${verb}"
            >${verb === 'pause' ? 'Pause' : 'Resume'}</a
          >`,
          html`<a class="button primary" href="${buildUrl('/runs/new', { source: name })}">Run</a>`,
        ]
      }
    </p>`,
  )
}

function fillRateTable({ fillRates, columns }: SourceOverview, now: number): Html {
  const first = fillRates[0]
  const last = fillRates.at(-1)
  if (first === undefined || last === undefined) return empty('Fill rates are counted during the first run.')
  const since = formatDuration(last.at.getTime() - first.at.getTime())
  return html`<table class="coverage">
    <caption>
      ${pluralize(last.eligible, 'row')}, counted
      ${timeAgo(last.at, now)}${fillRates.length > 1 && html`; change in percentage points over ${since}`}
    </caption>
    <thead>
      <tr>
        <th scope="col">column</th>
        <th scope="col" class="wide">filled</th>
        <th scope="col" class="n">share</th>
        <th scope="col" class="n">change</th>
        <th scope="col" class="trend">trend</th>
      </tr>
    </thead>
    <tbody>
      ${columns.map((column) => columnRow(column, fillRates))}
    </tbody>
  </table>`
}

function columnRow(column: string, coverage: SourceOverview['fillRates']): Html {
  const known = coverage.filter((one) => one.filled[column] !== undefined)
  const shares = known.map((one) => ratio(one.filled[column] ?? 0, one.eligible))
  const [before = 0] = shares
  const now = shares.at(-1) ?? 0
  const last = known.at(-1)
  const gain = now - before
  return html`<tr>
    <th scope="row">${breakable(column)}</th>
    <td class="wide">
      ${shareBar([
        { share: Math.min(before, now), look: 'before' },
        { share: Math.max(0, gain), look: 'good' },
      ])}<span class="sr">${formatCount(last?.filled[column] ?? 0)} rows</span>
    </td>
    <td class="n">${percentOfTotal(last?.filled[column] ?? 0, last?.eligible ?? 0)}</td>
    <td class="n ${trendClass(gain)}">${formatPoints(gain)}</td>
    <td class="trend">${sparkline(trendPoints(known, shares))}</td>
  </tr>`
}

/** Maximum points of a trend line, which is 74 pixels wide. */
const MAX_TREND_POINTS = 60

/** Points at their true times; heights between the minimum and the maximum, enlarged at most ten times. */
function trendPoints(
  known: SourceOverview['fillRates'],
  shares: readonly number[],
): ReadonlyArray<readonly [number, number]> {
  const times = known.map((one) => one.at.getTime())
  const begin = times[0] ?? 0
  const length = Math.max(1, (times.at(-1) ?? 0) - begin)
  const low = Math.min(...shares)
  const height = Math.max(0.1, Math.max(...shares) - low)
  const every = Math.max(1, Math.ceil(known.length / MAX_TREND_POINTS))
  return shares.flatMap((one, n) =>
    n % every === 0 || n === shares.length - 1
      ? [[((times[n] ?? 0) - begin) / length, (one - low) / height] as const]
      : [],
  )
}
