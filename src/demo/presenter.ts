import { type Output, padText, textWidth, wrapText } from '../cli/terminal.ts'
import { renderText } from '../cli/views/layout.ts'
import { formatDuration } from '../util/format.ts'

/** Prints the demo step by step; prints nothing if silent, as with `--json`. */
export class Presenter {
  readonly output: Output
  readonly #isSilent: boolean

  constructor(output: Output, options: { readonly silent: boolean }) {
    this.output = output
    this.#isSilent = options.silent
  }

  lines(lines: readonly string[]): void {
    if (!this.#isSilent) this.output.lines(lines)
  }

  /** Running text. */
  text(text: string): void {
    this.lines(renderText(this.output, text))
  }

  title(name: string, what: string): void {
    const { paint } = this.output
    this.lines([`${paint('heading', name)}  ${what}`, ''])
  }

  /** A section: its heading on a full-width rule, with the command that shows the same. */
  section(title: string, command: string | null, lines: readonly string[]): void {
    const { paint, textColumns } = this.output
    const end = command === null ? '' : ` ${command} ──`
    const rule = '─'.repeat(Math.max(2, textColumns - textWidth(title) - textWidth(end) - 4))
    const after = command === null ? '' : ` ${paint('type', command)} ${paint('quiet', '──')}`
    this.lines([
      '',
      `${paint('quiet', '──')} ${paint('heading', title)} ${paint('quiet', rule)}${after}`,
      '',
      ...lines,
    ])
  }

  /** Shows a step while it runs, and ticks it off with its result. */
  async step<T>(name: string, act: () => Promise<T>, done: (result: T) => string): Promise<T> {
    const began = performance.now()
    if (!this.#isSilent) this.output.live([`  … ${name}`])
    const result = await act().finally(() => this.output.live([]))
    const took = formatDuration(performance.now() - began)
    const { paint, textColumns } = this.output
    const [first = '', ...rest] = wrapText(done(result), textColumns - 4 - 10)
    this.lines([
      `  ${paint('good', '✓')} ${padText(first, textColumns - 4 - 10)}${paint('quiet', took.padStart(8))}`,
      ...rest.map((line) => `    ${line}`),
    ])
    return result
  }
}
