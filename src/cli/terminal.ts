import { styleText } from 'node:util'
import cliTruncate from 'cli-truncate'
import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'

/** Styles named by meaning, not by colour. Output must read the same without colour. */
const STYLES = {
  heading: 'bold',
  quiet: 'dim',
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  /** Text that the user can type. */
  type: 'cyan',
  bar: 'cyan',
} as const

export type TextStyle = keyof typeof STYLES
export type Paint = (style: TextStyle, text: string) => string

export function createPaint(color: boolean): Paint {
  if (!color) return (_, text) => text
  return (style, text) => (text === '' ? '' : styleText(STYLES[style], text, { validateStream: false }))
}

/** The columns that a text takes on a terminal. */
export const textWidth = (text: string): number => stringWidth(text)

/** Cuts a text to a number of columns, with an ellipsis in place of the rest. Styles are closed. */
export const truncate = (text: string, columns: number): string =>
  Number.isFinite(columns) ? cliTruncate(text, Math.max(0, columns)) : text

/** Fills a text up with spaces to a number of columns. */
export function padText(text: string, columns: number, side: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, columns - textWidth(text)))
  return side === 'left' ? text + space : space + text
}

/** Breaks a text between words into lines of a number of columns. A longer word gets a line of its own. */
export const wrapText = (text: string, columns: number): string[] =>
  wrapAnsi(text, Math.max(1, columns)).split('\n')

/** The part of a writable stream that is used; `process.stdout` has it. */
interface TextSink {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'
/** Synchronized output: a terminal that supports it draws nothing between the two; others ignore them. */
const BEGIN_FRAME = '\u001b[?2026h'
const END_FRAME = '\u001b[?2026l'
const CLEAR_TO_LINE_END = '\u001b[K'
const CLEAR_TO_SCREEN_END = '\u001b[J'

const MIN_COLUMNS = 20
const DEFAULT_COLUMNS = 80
/** Running text is no wider than this, to stay readable. */
const MAX_TEXT_COLUMNS = 100

/**
 * A text output: a terminal or not, with its width, with or without colour. On a terminal it can keep live lines at the
 * bottom; other output appears above them.
 *
 * The live lines are not drawn by log-update, which flickers on a terminal without synchronized output, and hides the cursor of
 * standard error whatever stream it writes to.
 */
export class Output {
  readonly paint: Paint
  /** Whether live lines are drawn: a terminal that can move its cursor. */
  readonly isLive: boolean
  readonly #sink: TextSink
  #liveLines: readonly string[] = []

  /** @param options.isDumb the terminal cannot move its cursor (`TERM=dumb`) */
  constructor(sink: TextSink, options: { readonly color: boolean; readonly isDumb?: boolean }) {
    this.#sink = sink
    this.isLive = sink.isTTY === true && options.isDumb !== true
    this.paint = createPaint(options.color)
  }

  get isTTY(): boolean {
    return this.#sink.isTTY === true
  }

  /** Null for a file or a pipe, where lines are never cut. */
  get columns(): number | null {
    if (!this.isTTY) return null
    // Some terminals report 0: a pseudo-terminal of CI, a serial console.
    return Math.max(MIN_COLUMNS, this.#sink.columns || DEFAULT_COLUMNS)
  }

  /** The width of running text. */
  get textColumns(): number {
    return Math.min(this.columns ?? MAX_TEXT_COLUMNS, MAX_TEXT_COLUMNS)
  }

  write(text: string): void {
    if (this.#liveLines.length === 0) {
      this.#sink.write(text)
      return
    }
    const lines = this.#draw(this.#liveLines)
    this.#sink.write(BEGIN_FRAME + this.#moveToTop() + CLEAR_TO_SCREEN_END + text + lines + END_FRAME)
  }

  /** Writes a line. */
  line(text = ''): void {
    this.write(`${text}\n`)
  }

  /** Writes lines. */
  lines(lines: readonly string[]): void {
    for (const line of lines) this.line(line)
  }

  /** Replaces the live lines; an empty list removes them. Does nothing where lines cannot be redrawn. */
  live(lines: readonly string[]): void {
    if (!this.isLive || (lines.length === 0 && this.#liveLines.length === 0)) return
    const before = this.#liveLines.length === 0 ? HIDE_CURSOR : this.#moveToTop()
    const after = lines.length === 0 ? SHOW_CURSOR : ''
    // Each line is written over the old one and only its rest is cleared: cleared first, it would flicker.
    const room = (this.columns ?? DEFAULT_COLUMNS) - 1
    this.#liveLines = lines.map((line) => truncate(line, room))
    const drawn = this.#draw(this.#liveLines)
    this.#sink.write(BEGIN_FRAME + before + drawn + CLEAR_TO_SCREEN_END + after + END_FRAME)
  }

  #draw(lines: readonly string[]): string {
    return lines.map((line) => `${line}${CLEAR_TO_LINE_END}\n`).join('')
  }

  /** Moves to the first live line. A terminal that was made narrower has wrapped them since. */
  #moveToTop(): string {
    const columns = this.columns ?? DEFAULT_COLUMNS
    const rows = this.#liveLines.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(textWidth(line) / columns)),
      0,
    )
    return rows === 0 ? '' : `\r\u001b[${rows}A`
  }
}

/** Writes one JSON object: indented on a terminal, else on one line. */
export function writeJson(output: Output, value: object): void {
  output.write(`${output.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)}\n`)
}
