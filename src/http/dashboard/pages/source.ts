import {
  readSourceOverviews,
  type SourceOverview,
  type Verdict,
  type DashboardData,
} from '../../../actions/dashboard-data.ts'
import type { ReportedCondition } from '../../../domain/report/status.ts'
import { formatCount, pluralize, filledShare, formatPercent } from '../../../util/text.ts'
import {
  badge,
  breakable,
  card,
  empty,
  pageHead,
  percentOfTotal,
  ratio,
  shareBar,
  sourceLinks,
  timeAgo,
  withCode,
  countRows,
  statesTable,
  countLink,
  dataTable,
  nameText,
  stateBadge,
} from '../components.ts'
import { buildUrl, html, sourceUrl, type Markup, type HtmlPart } from '../html.ts'
import { missing, requireSource, type Page } from '../page.ts'
import { findBreakage } from './verdict.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'
import { runOutcome } from '../../../domain/stored-run.ts'

/** Leads to the first source: the overview lists all of them, and each page leads to the others. */
export const sourcesPage: Page = {
  path: '/sources',
  name: 'Sources',
  show: async (_, { config }) => {
    const [first] = Object.keys(config.sources)
    if (first !== undefined) return { redirect: sourceUrl(first) }
    throw missing('No sources', 'The configuration has no source.')
  },
}

interface SourcePageData {
  readonly source: SourceOverview
  readonly conditions: Verdict['conditions']
  readonly readAt: number
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** One source: how full it is, and its rows by state. */
export const sourcePage: Page = {
  path: '/sources/:source',
  isLive: true,
  show: async (request, deps) => {
    const { db, config, readVerdict } = deps
    const mapping = requireSource(request, deps)
    const { name } = mapping
    const [source] = await readSourceOverviews(db, [mapping])
    if (source === undefined) throw new Error('a source has no overview')
    const data: SourcePageData = {
      source,
      conditions: (await readVerdict()).conditions,
      readAt: Date.now(),
      canAct: request.canAct,
    }
    const others = Object.keys(config.sources).filter((other) => other !== name)
    return {
      title: name,
      body: html`${pageHead(name, sourceActions(data))} ${aboutSource(data)}
        ${others.length > 0 && html`<div class="sub others">Other sources: ${sourceLinks(others)}</div>`}
        <div class="grid">
          ${card('fill-rates', 'Fill rates', fillRateTable(source, data.readAt))}${rowsSection(data)}
        </div>`,
    }
  },
}

function aboutSource({ source, conditions, readAt }: SourcePageData): Markup {
  const { kind, table, pause, lastRun, name } = source
  const breakage = findBreakage(conditions, name)
  return html`<p class="sub about">
      ${kind} · <code>${table}</code>
      ${lastRun !== null && html` · <a href="${buildUrl('/runs', { source: name })}">runs</a>, the last ${timeAgo(lastRun.at, readAt)}`}
      ${pause !== null && [' · ', badge('paused', 'warn'), pauseText(pause, readAt)]}
    </p>
    ${breakage !== undefined && breakageNotice(breakage, readAt)}`
}

/** Why a source is left out, since when, and what to do. */
const breakageNotice = ({ title, mend, since }: ReportedCondition, now: number): Markup =>
  html`<p class="notice bad">
    <b>${title}</b>, since ${timeAgo(since, now)}. <b>What to do:</b> ${withCode(mend)}
  </p>`

const rowsSection = ({ source: { name, states } }: SourcePageData): Markup =>
  card(
    'rows',
    'Rows',
    countRows(states) === 0
      ? empty(
          html`No rows picked yet. <code>fillrate plan ${name}</code> shows what a run would do,
            <code>fillrate run ${name}</code> does it.`,
        )
      : statesTable('Rows ever picked, by state', states, (state) =>
          buildUrl('/rows', { source: name, state }),
        ),
    html`<a href="${buildUrl('/rows', { source: name })}">All rows</a>`,
  )

function sourceActions({ source: { name, pause }, canAct }: SourcePageData): HtmlPart {
  const verb = pause === null ? 'pause' : 'resume'
  return (
    canAct &&
    html`<p class="actions">
      <a class="button" href="${sourceUrl(name)}/${verb}">${pause === null ? 'Pause' : 'Resume'}</a>
      <a class="button primary" href="${buildUrl('/runs/new', { source: name })}">Start a run</a>
    </p>`
  )
}

/** How full each column is at the last count. A column that was mapped since has no share. */
const fillRateTable = ({ fillRate, columns }: SourceOverview, now: number): Markup =>
  fillRate === null
    ? empty('Counted at the end of a run.')
    : html`<table class="coverage">
        <caption>
          ${pluralize(fillRate.eligible, 'row')}, counted ${timeAgo(fillRate.at, now)}
        </caption>
        <thead>
          <tr>
            <th scope="col">column</th>
            <th scope="col" class="wide">filled</th>
            <th scope="col" class="n">share</th>
          </tr>
        </thead>
        <tbody>
          ${columns.map((column) => columnRow(column, fillRate.filled[column], fillRate.eligible))}
        </tbody>
      </table>`

const columnRow = (column: string, filled: number | undefined, eligible: number): Markup =>
  html`<tr>
    <th scope="row">${breakable(column)}</th>
    <td class="wide">
      ${shareBar(ratio(filled ?? 0, eligible), 'good')}${filled !== undefined && html`<span class="sr">${formatCount(filled)} rows</span>`}
    </td>
    <td class="n">${filled === undefined ? '–' : percentOfTotal(filled, eligible)}</td>
  </tr>`

/**
 * All sources with their fill rates.
 * @param followed the sources that live sync watches
 */
export const sourcesCard = (
  { sources, readAt: now }: DashboardData,
  { conditions }: Pick<Verdict, 'conditions'>,
  followed: readonly string[],
): Markup =>
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

/** How full a source is, at the last count of a run. */
function fillRateCell({ fillRate, columns }: SourceOverview): HtmlPart {
  const filled = columns.map((column) => fillRate?.filled[column])
  const share = filledShare(fillRate?.eligible ?? 0, filled)
  if (share === null) return html`<span class="soft">–</span>`
  return html`<div class="filled">
    ${shareBar(share, 'good')} <span class="n">${formatPercent(share)}</span>
  </div>`
}

/** Since when a source is paused, by whom and why: runs skip it. */
const pauseText = (
  { paused_at: at, paused_by: by, reason }: NonNullable<SourceOverview['pause']>,
  now: number,
): Markup =>
  html`<span class="soft pause"> ${timeAgo(at, now)} by ${by}${reason !== null && `: ${reason}`}</span>`
