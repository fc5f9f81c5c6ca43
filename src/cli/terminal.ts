import cliTruncate from 'cli-truncate'
import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'
import { styleText } from 'node:util'

/** Styles named by meaning, not by colour. Output must read the same without colour. */
const STYLES = {
  heading: 'bold',
  quiet: 'dim',
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  /** Text that the user can type. */
  type: 'cyan',
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

const CLEAR_TO_LINE_END = '\u001b[K'

const MIN_COLUMNS = 20
const DEFAULT_COLUMNS = 80
/** Running text is no wider than this, to stay readable. */
const MAX_TEXT_COLUMNS = 100

/**
 * A text output: a terminal or not, with its width, with or without colour. On a terminal it can keep a
 * live line at the bottom; other output appears above it.
 */
export class Output {
  readonly paint: Paint
  /** Whether a live line is drawn: a terminal that can move its cursor. */
  readonly isLive: boolean
  readonly #sink: TextSink
  #liveLine = ''

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
    this.#sink.write(this.#liveLine === '' ? text : `\r${CLEAR_TO_LINE_END}${text}${this.#liveLine}`)
  }

  /** Writes a line. */
  line(text = ''): void {
    this.write(`${text}\n`)
  }

  /** Writes lines. */
  lines(lines: readonly string[]): void {
    for (const line of lines) this.line(line)
  }

  /** Replaces the live line; an empty text removes it. Does nothing where a line cannot be redrawn. */
  live(text: string): void {
    if (!this.isLive || (text === '' && this.#liveLine === '')) return
    // A line that the terminal wraps could not be taken back.
    this.#liveLine = truncate(text, (this.columns ?? DEFAULT_COLUMNS) - 1)
    // Written over the old one, of which only the rest is cleared: cleared first, it would flicker.
    this.#sink.write(`\r${this.#liveLine}${CLEAR_TO_LINE_END}`)
  }
}

/** Writes one JSON object: indented on a terminal, else on one line. */
export function writeJson(output: Output, value: object): void {
  output.write(`${output.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)}\n`)
}
