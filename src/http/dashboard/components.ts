import { formatCount, relativeTime, formatPercent } from '../../util/format.ts'
import { FAILED_ROW_STATES } from '../../domain/row.ts'
import { html, type Html, type HtmlPart } from './html.ts'

/** States whose identifiers read badly; all others are shown with blanks. */
const STATE_LABELS: Readonly<Record<string, string>> = {
  not_found: 'no match',
  below_confidence: 'low confidence',
  unchanged: 'complete',
  rejected: 'rejected by the service',
  write_rejected: 'write failed',
  suppressed: 'erased',
}

export const stateLabel = (state: string): string => STATE_LABELS[state] ?? state.replaceAll('_', ' ')

/** A point in time, shown relative to now; the page keeps it current. */
export const timeAgo = (date: Date, now: number): Html =>
  html`<time datetime="${date.toISOString()}">${relativeTime(date, now)}</time>`

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet'

/** The colour of a state of a row, job, run, lookup or delivery. The text always states it too. */
export function stateTone(state: string): Tone {
  if (['enriched', 'completed', 'found', 'settled'].includes(state)) return 'good'
  if (['waiting', 'running', 'submitting', 'submitted', 'pending', 'leased', 'received'].includes(state))
    return 'busy'
  if (['below_confidence', 'invalid_input', 'interrupted', 'in_doubt', 'orphaned'].includes(state))
    return 'warn'
  if ([...FAILED_ROW_STATES, 'expired', 'rejected', 'quarantined'].includes(state)) return 'bad'
  return 'quiet'
}

export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`
export const stateBadge = (state: string): Html => badge(stateLabel(state), stateTone(state))

/** Names and values in two columns; a value of null is left out. */
export const definitionList = (fields: ReadonlyArray<readonly [name: string, value: HtmlPart]>): Html =>
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

/** Shares of a whole as a bar. A non-zero share is at least a sliver. Decorative: the numbers stand beside it. */
export function shareBar(parts: ReadonlyArray<{ readonly share: number; readonly look: string }>): Html {
  let x = 0
  const rects = parts.map(({ share, look }) => {
    const width = share <= 0 ? 0 : Math.max(0.6, Math.min(1, share) * 100)
    const rect = html`<rect class="${look}" x="${x.toFixed(2)}" width="${width.toFixed(2)}" height="10" />`
    x += width
    return rect
  })
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="10" />
    ${rects}
  </svg>`
}

/** A line through points with x and y from 0 to 1. Decorative. */
export function sparkline(points: ReadonlyArray<readonly [x: number, y: number]>): Html | null {
  if (points.length < 2) return null
  const at = points.map(([x, y]) => `${(x * 100).toFixed(1)},${(22 - y * 20).toFixed(1)}`)
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
    <polyline points="${at.join(' ')}" />
  </svg>`
}

export const ratio = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole)
export const percentOfTotal = (part: number, whole: number): string =>
  whole === 0 ? '–' : formatPercent(part / whole)
export const numberCell = (n: number | null): Html =>
  html`<td class="n">${n === null ? '' : formatCount(n)}</td>`

/** A titled section, addressable by its id. */
export const card = (id: string, title: string, body: HtmlPart, aside: HtmlPart = null): Html =>
  html`<section id="${id}" class="card" aria-labelledby="${id}-title">
    <header class="card-head">
      <h2 id="${id}-title">${title}</h2>
      ${aside}
    </header>
    ${body}
  </section>`

/** Wide tables scroll on narrow screens; the keyboard must reach scrollable regions. */
export const scrollable = (label: string, table: Html): Html =>
  html`<div class="scroll" role="group" aria-label="${label}" tabindex="0">${table}</div>`
