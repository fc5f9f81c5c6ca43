import { count, distance, percent } from '../../../domain/numbers.ts'
import { FAILED_ROW_STATES } from '../../../domain/row.ts'
import { html, type Html, type Part } from './html.ts'

export const words = (state: string): string => state.replaceAll('_', ' ')

/** A point in time, said by its distance; the page keeps it going by itself. */
export const when = (date: Date, now: number): Html =>
  html`<time datetime="${date.toISOString()}">${distance(date, now)}</time>`

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet'

/** How a state of a row, job, run, lookup or delivery looks. Never told by its colour alone. */
export function toneOf(state: string): Tone {
  if (['enriched', 'completed', 'found', 'settled'].includes(state)) return 'good'
  if (['waiting', 'running', 'submitting', 'submitted', 'pending', 'leased', 'received'].includes(state))
    return 'busy'
  if (['below_confidence', 'invalid_input', 'interrupted', 'in_doubt', 'orphaned'].includes(state))
    return 'warn'
  if ([...FAILED_ROW_STATES, 'expired', 'rejected', 'quarantined'].includes(state)) return 'bad'
  return 'quiet'
}

export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`
export const stateBadge = (state: string): Html => badge(words(state), toneOf(state))

/** Parts of a whole as a bar. What is not nothing shows at least a sliver. For the eye: the numbers stand beside it. */
export function bar(parts: ReadonlyArray<{ readonly share: number; readonly look: string }>): Html {
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

/** A line through points whose x and y are 0 to 1. For the eye. */
export function sparkline(points: ReadonlyArray<readonly [x: number, y: number]>): Html | null {
  if (points.length < 2) return null
  const at = points.map(([x, y]) => `${(x * 100).toFixed(1)},${(22 - y * 20).toFixed(1)}`)
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
    <polyline points="${at.join(' ')}" />
  </svg>`
}

export const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole)
export const percentOf = (part: number, whole: number): string => (whole === 0 ? '–' : percent(part / whole))
export const number = (n: number | null): Html => html`<td class="n">${n === null ? '' : count(n)}</td>`

/** A section with its heading, found by its id. */
export const section = (id: string, title: string, body: Part, aside: Part = null): Html =>
  html`<section id="${id}" class="card" aria-labelledby="${id}-title">
    <header class="card-head">
      <h2 id="${id}-title">${title}</h2>
      ${aside}
    </header>
    ${body}
  </section>`

/** Wide tables scroll on a narrow screen; a keyboard must reach what scrolls. */
export const scroll = (label: string, table: Html): Html =>
  html`<div class="scroll" role="group" aria-label="${label}" tabindex="0">${table}</div>`
