import { renderScreen, type Cell } from './terminal-screen.ts'

/** What a program wrote at once. */
export interface Chunk {
  /** Seconds since the chunk before. */
  readonly after: number
  readonly text: string
}

export interface PictureOptions {
  readonly columns: number
  readonly rows: number
  /** Begins the screen that is shown where nothing moves. */
  readonly stillFrom: string
  /** Begins the line that ends the picture. */
  readonly until: string
  readonly label: string
}

const WIDTH = 8.43
const HEIGHT = 19
const MARGIN = 22
/** Colours on a dark background, by terminal colour number. */
const COLORS: Readonly<Record<number, string>> = {
  31: '#f08683',
  32: '#45c9a3',
  33: '#e5b454',
  34: '#8db0fa',
  35: '#c9a0f5',
  36: '#5cc8d7',
  90: '#7d8796',
}
/** A minute of waiting is ten seconds of the picture, and the longest pause half a second. */
const SPEED = 5
const LONGEST_PAUSE_S = 0.5
const FRAME_S = 0.25
/** A report is printed at once and read line by line. */
const SCROLLED_LINES_PER_S = 8
const LAST_PAUSE_S = 4

type Line = readonly Cell[]
interface Frame {
  readonly at: number
  readonly lines: readonly Line[]
  /** The first line of the window, once it is scrolled. */
  readonly top: number
  readonly scrolledAt: number
}

/**
 * An SVG that plays what a program wrote on a terminal. Each state of a line is drawn once, and visible from its first to its
 * last frame. Programs that play no animations, and readers who want none, see the last state of the screen `stillFrom`. Pure.
 */
export function drawRecording(chunks: readonly Chunk[], options: PictureOptions): string {
  const { columns, rows, label } = options
  const frames = toFrames(chunks, options)
  const lines = frames.at(-1)?.lines ?? []
  const seconds = (frames.at(-1)?.scrolledAt ?? 0) + LAST_PAUSE_S
  const percent = (at: number): string => `${Number(((at / seconds) * 100).toFixed(2))}%`

  const groups = new Map<string, string[]>()
  for (let row = 0; row < Math.max(...frames.map((frame) => frame.lines.length)); row++)
    for (const { from, to, line } of states(frames, row)) {
      const drawn = drawLine(line.slice(0, columns), row)
      if (drawn === '') continue
      const key = `${from} ${to}`
      groups.set(key, [...(groups.get(key) ?? []), drawn])
    }
  const shown = [...groups].map(([key, drawn], n) => {
    const [from = 0, to = 0] = key.split(' ').map(Number)
    const begin = percent(frames[from]?.at ?? 0)
    const isLast = to === frames.length
    const end = isLast ? '' : `${percent(frames[to]?.at ?? 0)}{visibility:hidden}`
    return {
      style: `@keyframes f${n}{0%{visibility:hidden}${begin}{visibility:visible}${end}}`,
      group: `<g class="${isLast ? 'a' : 'a h'}" style="animation-name:f${n}">\n${drawn.join('\n')}\n</g>`,
    }
  })
  const still = Math.max(
    0,
    lines.findIndex((line) => toText(line).startsWith(options.stillFrom)),
  )
  const moves = frames.flatMap(({ at, top, scrolledAt }, n) => {
    const before = frames[n - 1]?.top ?? 0
    return top === before
      ? []
      : [[at, before] as const, [scrolledAt, top] as const].map(
          ([time, line]) => `${percent(time)}{transform:translateY(${-line * HEIGHT}px)}`,
        )
  })
  const last = `100%{transform:translateY(${-(frames.at(-1)?.top ?? 0) * HEIGHT}px)}`
  const width = Math.ceil(columns * WIDTH + 2 * MARGIN)
  const height = rows * HEIGHT + 2 * MARGIN
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(label)}">
<style>
.a{animation:${seconds.toFixed(1)}s step-end infinite}
.h{visibility:hidden}
.s{transform:translateY(${-still * HEIGHT}px);animation:s ${seconds.toFixed(1)}s linear infinite}
@keyframes s{0%{transform:none}${moves.join('')}${last}}
${shown.map(({ style }) => style).join('\n')}
@media (prefers-reduced-motion:reduce){.a,.s{animation:none}}
</style>
<rect width="${width}" height="${height}" rx="10" fill="#0e1116"/>
<svg y="${MARGIN}" width="${width}" height="${rows * HEIGHT}" font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#e6eaf0">
<g class="s">
${shown.map(({ group }) => group).join('\n')}
</g>
</svg>
</svg>
`
}

/**
 * The screen at most every FRAME_S, never in the middle of a synchronized update, with pauses shortened. Time stands still while
 * the window scrolls to what a frame has added.
 */
function toFrames(chunks: readonly Chunk[], { rows, until }: PictureOptions): Frame[] {
  const frames: Frame[] = []
  let written = ''
  let at = 0
  chunks.forEach(({ after, text }, n) => {
    written += text
    at += Math.min(after / SPEED, LONGEST_PAUSE_S)
    const before = frames.at(-1)
    const isLast = n === chunks.length - 1
    const isWhole = written.lastIndexOf('\u001b[?2026h') <= written.lastIndexOf('\u001b[?2026l')
    if (!isLast && (!isWhole || (before !== undefined && at < before.scrolledAt + FRAME_S))) return
    const all = renderScreen(written)
    const end = all.findIndex((line) => toText(line).startsWith(until))
    const lines = trimmed(end === -1 ? all : all.slice(0, end))
    // A screen that became shorter is not scrolled back.
    const top = Math.max(before?.top ?? 0, lines.length - rows)
    const scrolledAt = at + (top - (before?.top ?? 0)) / SCROLLED_LINES_PER_S
    frames.push({ at, lines, top, scrolledAt })
    at = scrolledAt
  })
  return frames
}

function trimmed(lines: readonly Line[]): readonly Line[] {
  return lines.slice(0, lines.findLastIndex((line) => toText(line).trim() !== '') + 1)
}

/** The states of a row, each from the frame in which it begins to the one that replaces it. */
function states(frames: readonly Frame[], row: number): { from: number; to: number; line: Line }[] {
  const found: { from: number; to: number; line: Line; look: string }[] = []
  frames.forEach(({ lines }, n) => {
    const line = lines[row] ?? []
    const look = JSON.stringify(line)
    const latest = found.at(-1)
    if (latest?.look === look) latest.to = n + 1
    else found.push({ from: n, to: n + 1, line, look })
  })
  return found
}

const toText = (line: Line): string => line.map((cell) => cell.text).join('')
const escape = (part: string): string =>
  part.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

function drawLine(line: Line, row: number): string {
  const spans = toSpans(line).map(({ at, part, style }) => {
    const look = [
      style.color === null ? '' : ` fill="${COLORS[style.color] ?? '#e6eaf0'}"`,
      style.bold ? ' font-weight="700"' : '',
      style.dim ? ' opacity="0.6"' : '',
    ].join('')
    return `<tspan x="${(MARGIN + at * WIDTH).toFixed(1)}" textLength="${(part.length * WIDTH).toFixed(1)}"${look}>${escape(part)}</tspan>`
  })
  return spans.length === 0
    ? ''
    : `<text y="${row * HEIGHT + 14}" xml:space="preserve">${spans.join('')}</text>`
}

/** Sequences of cells with the same style, without blank ones. */
function toSpans(line: Line): { at: number; part: string; style: Cell }[] {
  const runs: { at: number; part: string; style: Cell }[] = []
  line.forEach((cell, at) => {
    const before = runs.at(-1)
    if (
      before &&
      before.at + before.part.length === at &&
      before.style.color === cell.color &&
      before.style.bold === cell.bold &&
      before.style.dim === cell.dim
    )
      before.part += cell.text
    else runs.push({ at, part: cell.text, style: cell })
  })
  return runs
    .map(({ at, part, style }) => ({ at, part: part.trimEnd(), style }))
    .filter(({ part }) => part !== '')
}
