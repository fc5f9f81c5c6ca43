import { painter, type Paint } from './render/paint.ts'
import { cut, width } from './render/text.ts'

/** As much of a stream as is used: `process.stdout` is one. */
export interface Sink {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'
/** Between these a terminal that knows them draws nothing; others ignore them. */
const BEGIN_FRAME = '\u001b[?2026h'
const END_FRAME = '\u001b[?2026l'
const END_OF_LINE = '\u001b[K'
const END_OF_SCREEN = '\u001b[J'

const NARROWEST = 20

/**
 * Where text goes: a terminal or not, so many columns wide, with or without colour. On a terminal it can hold a few
 * live lines at the bottom; whatever else is written appears above them.
 */
export class Output {
  readonly paint: Paint
  readonly #sink: Sink
  #live: readonly string[] = []

  constructor(sink: Sink, options: { readonly color: boolean }) {
    this.#sink = sink
    this.paint = painter(options.color)
  }

  get isTTY(): boolean {
    return this.#sink.isTTY === true
  }

  /** Null where there is no edge: a file or a pipe gets every line whole. */
  get columns(): number | null {
    if (!this.isTTY) return null
    return Math.max(NARROWEST, this.#sink.columns ?? 80)
  }

  /** The width of running text: no wider than reads well. */
  get textColumns(): number {
    return Math.min(this.columns ?? 100, 100)
  }

  write(text: string): void {
    if (this.#live.length === 0) {
      this.#sink.write(text)
      return
    }
    const live = this.#live
    this.#sink.write(BEGIN_FRAME + this.#toTop() + END_OF_SCREEN + text + this.#draw(live) + END_FRAME)
  }

  /** The text with a line's end. */
  line(text = ''): void {
    this.write(`${text}\n`)
  }

  /** Shows these lines in place of the live ones before; none takes them away. Does nothing where there is no terminal. */
  live(lines: readonly string[]): void {
    if (!this.isTTY || (lines.length === 0 && this.#live.length === 0)) return
    const before = this.#live.length === 0 ? HIDE_CURSOR : this.#toTop()
    const after = lines.length === 0 ? SHOW_CURSOR : ''
    // Each line is written over the old one and only its rest is cleared: cleared first, it would flicker.
    const edge = (this.columns ?? 80) - 1
    this.#live = lines.map((line) => cut(line, edge))
    this.#sink.write(BEGIN_FRAME + before + this.#draw(this.#live) + END_OF_SCREEN + after + END_FRAME)
  }

  #draw(lines: readonly string[]): string {
    return lines.map((line) => `${line}${END_OF_LINE}\n`).join('')
  }

  /** To the first live line; a terminal made narrower since has broken them. */
  #toTop(): string {
    const columns = this.columns ?? 80
    const rows = this.#live.reduce((sum, line) => sum + Math.max(1, Math.ceil(width(line) / columns)), 0)
    return rows === 0 ? '' : `\r\u001b[${rows}A`
  }
}
