import { formatCount, formatPercent, formatUtc, pluralize, relativeTime } from '../../util/text.ts'
import { formatState, ROW_STATES, type RowState } from '../../domain/row.ts'
import type { RunState, RunStatus } from '../../domain/run.ts'
import { html, sourceUrl, type Markup, type HtmlPart } from './html.ts'

/** A point in time, relative to now, with the time itself on hover. The page keeps both current, in the chosen zone. */
export const timeAgo = (date: Date, now: number): Markup =>
  html`<time datetime="${date.toISOString()}" title="${formatUtc(date)}">${relativeTime(date, now)}</time>`

/** A point in time itself, in UTC or in the zone that the user has chosen. */
export const clockTime = (date: Date): Markup =>
  html`<time class="clock" datetime="${date.toISOString()}">${formatUtc(date)}</time>`

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet'

/** The colour of each state of a row or a run. The text always states it too. */
const TONES: Readonly<Record<RowState | RunState | RunStatus, Tone>> = {
  enriched: 'good',
  completed: 'good',
  waiting: 'busy',
  running: 'busy',
  failed: 'bad',
  rejected: 'bad',
  write_rejected: 'bad',
  unauthorized: 'bad',
  misconfigured: 'bad',
  out_of_credits: 'bad',
  invalid_input: 'warn',
  below_confidence: 'warn',
  interrupted: 'warn',
  budget_reached: 'warn',
  unchanged: 'quiet',
  not_found: 'quiet',
  suppressed: 'quiet',
}

const stateTone = (state: string): Tone => TONES[state as keyof typeof TONES] ?? 'quiet'

export const badge = (text: string, tone: Tone): Markup => html`<span class="badge ${tone}">${text}</span>`
export const stateBadge = (state: string): Markup => badge(formatState(state), stateTone(state))

/** The heading of a page, with its actions. */
export const pageHead = (title: HtmlPart, actions: HtmlPart = null): Markup =>
  html`<div class="page-head">
    <h1>${title}</h1>
    ${actions}
  </div>`

/** Why there is no such page. @param retried where it is tried again, because the reason may pass; null: it will not */
export const errorBody = (title: string, reason: HtmlPart, retried: string | null = null): Markup =>
  html`${pageHead(title)}
    <section class="card error-page">
      ${reason}
      <p>
        <a class="button" href="${retried ?? '/'}">${retried === null ? 'Overview' : 'Try again'}</a>
        ${retried !== null && 'It is tried again every few seconds.'}
      </p>
    </section>`

/** Names and values in two columns; a value of null is left out. */
export const definitionList = (fields: ReadonlyArray<readonly [name: HtmlPart, value: HtmlPart]>): Markup =>
  html`<dl class="fields">
    ${fields
      .filter(([, value]) => value !== null)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
  </dl>`

/** A share of a whole as a bar. A non-zero share is at least a sliver. Decorative: the number stands beside it. */
export function shareBar(share: number, look: string): Markup {
  const width = share <= 0 ? 0 : Math.max(0.6, Math.min(1, share) * 100)
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="10" />
    <rect class="${look}" width="${width.toFixed(2)}" height="10" />
  </svg>`
}

export const ratio = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole)
export const percentOfTotal = (part: number, whole: number): string =>
  whole === 0 ? '–' : formatPercent(part / whole)
/** A name of a source, a column or a key: a short one stays whole, a long one wraps, preferably after `_` and the like. */
export const nameText = (text: string): Markup =>
  text.length > 24
    ? html`<span class="name">${breakable(text)}</span>`
    : html`<span class="short">${text}</span>`

/** A text without blanks that may be broken after its separators. */
export const breakable = (text: string): HtmlPart =>
  text.split(/(?<=[_.@/-])/).map((part, n) => [n > 0 && html`<wbr />`, part])
/** `host:1234` of the owner of a lease. */
export const processName = (owner: string): string => owner.split(':').slice(0, 2).join(':')

/** Names that are listed at once; more would push everything else away. */
const MAX_LISTED_SOURCES = 4

/** All names, each a link to its page. */
export function sourceLinks(sources: readonly string[]): HtmlPart {
  if (sources.length === 0) return 'none'
  const links = sources.map((name, n) => [n > 0 && ', ', sourceLink(name)])
  return sources.length <= MAX_LISTED_SOURCES
    ? links
    : html`<details>
        <summary>${pluralize(sources.length, 'source')}</summary>
        ${links}
      </details>`
}

export const sourceLink = (name: string): Markup => html`<a href="${sourceUrl(name)}">${nameText(name)}</a>`

/** A number; nothing for null. */
export const count = (n: number | null): string | null => (n === null ? null : formatCount(n))
/** A number that leads to what it counts; zero leads nowhere. */
export const countLink = (n: number, url: string): HtmlPart =>
  n === 0 ? '0' : html`<a href="${url}">${formatCount(n)}</a>`

/** A titled section, addressable by its id. */
export const card = (id: string, title: HtmlPart, body: HtmlPart, aside: HtmlPart = null): Markup =>
  html`<section id="${id}" class="card" aria-labelledby="${id}-title">
    <header class="card-head">
      <h2 id="${id}-title">${title}</h2>
      ${aside}
    </header>
    ${body}
  </section>`

export const empty = (text: HtmlPart): Markup => html`<p class="empty">${text}</p>`

/** Links to the page before and the page after; null: there is none. */
export const pageLinks = (before: string | null, after: string | null): HtmlPart =>
  (before !== null || after !== null) &&
  html`<p class="pager">
    ${before !== null && html`<a rel="prev" href="${before}">← Previous</a>`}
    ${after !== null && html`<a rel="next" href="${after}">Next →</a>`}
  </p>`

/** A choice of one of some values. */
export const selectField = (
  name: string,
  label: string,
  chosen: string | null,
  options: ReadonlyArray<readonly [value: string, text: string]>,
): Markup =>
  html`<label
    >${label}
    <select name="${name}">
      ${options.map(([value, text]) => html`<option value="${value}" ${value === (chosen ?? '') && html` selected`}>${text}</option>`)}
    </select></label
  >`

/** A text of any length on two lines at most; the whole text on hover. */
export const clamped = (text: string | null, link: string | null = null): HtmlPart =>
  text === null || text === ''
    ? null
    : html`<span class="clamp" title="${text}"
        >${link === null ? withCode(text) : html`<a href="${link}">${withCode(text)}</a>`}</span
      >`

/** Formats `code` spans in text. */
export const withCode = (text: string): HtmlPart =>
  text.split('`').map((part, n) => (n % 2 === 1 ? html`<code>${part}</code>` : part))

/** A column of a table. */
export interface DataColumn<Line> {
  readonly name: string
  readonly cell: (line: Line) => HtmlPart
  /** `row`: the header of its line. `number`: to the right. `text`: takes the room that is left. `wide`: half of it. */
  readonly kind?: 'row' | 'number' | 'text' | 'wide'
}

/** Whether a cell shows nothing. */
const isBlank = (cell: HtmlPart): boolean =>
  cell === null ||
  cell === '' ||
  cell === undefined ||
  cell === false ||
  (Array.isArray(cell) && cell.every((part: HtmlPart) => isBlank(part)))

/**
 * A table. On a narrow screen each line is a card, with the names of the columns before the values.
 * @param columns null entries are left out
 */
export function dataTable<Line>(
  caption: HtmlPart,
  columns: ReadonlyArray<DataColumn<Line> | null | false>,
  lines: readonly Line[],
  {
    isCaptionShown = false,
    none,
  }: {
    readonly isCaptionShown?: boolean
    /** What stands in its place if it has no lines. Missing: the head alone. */
    readonly none?: HtmlPart
  } = {},
): Markup {
  if (lines.length === 0 && none !== undefined) return empty(none)
  const shown = columns.filter((column) => column !== null && column !== false)
  const look = ({ kind }: DataColumn<Line>): string =>
    kind === 'number' ? 'n' : kind === 'text' ? 'reason' : kind === 'wide' ? 'wide' : ''
  return html`<table class="data">
    <caption class="${isCaptionShown ? '' : 'sr'}">
      ${caption}
    </caption>
    <thead>
      <tr>
        ${shown.map((column) => html`<th scope="col" class="${look(column)}">${column.name}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${lines.map(
        (line) =>
          html`<tr>
            ${shown.map((column) => {
              const cell = column.cell(line)
              return column.kind === 'row'
                ? html`<th scope="row">${cell}</th>`
                : html`<td
                    class="${look(column)}${isBlank(cell) ? ' blank' : ''}"
                    data-label="${column.name}"
                  >
                    ${cell}
                  </td>`
            })}
          </tr>`,
      )}
    </tbody>
  </table>`
}

/** Rows in these states together; by default, in all. */
export const countRows = (
  counts: Readonly<Record<RowState, number>>,
  states: readonly RowState[] = ROW_STATES,
): number => states.reduce((sum, state) => sum + counts[state], 0)

/** The rows by state: the lines add up to the last one. @param linkOf null: the rows are not listed */
export function statesTable(
  caption: string,
  counts: Readonly<Record<RowState, number>>,
  linkOf: (state: RowState) => string | null,
): Markup {
  const picked = countRows(counts)
  const line = (state: RowState): Markup => {
    const link = linkOf(state)
    return html`<tr>
      <th scope="row">
        ${link === null ? stateBadge(state) : html`<a class="badge ${stateTone(state)}" href="${link}">${formatState(state)}</a>`}
      </th>
      <td class="n">${formatCount(counts[state])}</td>
      <td class="wide">
        <div>
          ${shareBar(ratio(counts[state], picked), stateTone(state))}
          <span class="n">${percentOfTotal(counts[state], picked)}</span>
        </div>
      </td>
    </tr>`
  }
  return html`<table class="states">
    <caption class="sr">
      ${caption}
    </caption>
    <thead class="sr">
      <tr>
        <th scope="col">state</th>
        <th scope="col">rows</th>
        <th scope="col">share</th>
      </tr>
    </thead>
    <tbody>
      ${ROW_STATES.filter((state) => counts[state] > 0).map(line)}
      <tr class="sum">
        <th scope="row">picked</th>
        <td class="n">${formatCount(picked)}</td>
        <td></td>
      </tr>
    </tbody>
  </table>`
}
