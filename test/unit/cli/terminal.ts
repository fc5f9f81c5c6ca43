import { Output } from '../../../src/cli/terminal.ts'

/**
 * As much of a terminal as the output uses: writing, and clearing to the end of a line. Fails on any other
 * escape, so that nothing is missed.
 */
export class Terminal {
  readonly isTTY = true
  columns: number
  /** All that was written, escapes and all. */
  raw = ''
  /** How often a line was emptied that had text: what a person sees as flicker. */
  blanked = 0
  #lines: string[] = ['']
  #row = 0
  #column = 0

  constructor(columns = 80) {
    this.columns = columns
  }

  get screen(): string[] {
    const lines = this.#lines.map((line) => line.trimEnd())
    while (lines.at(-1) === '') lines.pop()
    return lines
  }

  write(text: string): void {
    this.raw += text
    // oxlint-disable-next-line no-control-regex
    for (const part of text.match(/\u001b\[[?\d;]*[A-Za-z]|[\s\S]/gu) ?? []) this.#take(part)
  }

  #take(part: string): void {
    if (part === '\n') {
      this.#row++
      this.#column = 0
      this.#lines[this.#row] ??= ''
    } else if (part === '\r') this.#column = 0
    else if (part.startsWith('\u001b')) this.#escape(part)
    else {
      const line = (this.#lines[this.#row] ?? '').padEnd(this.#column)
      this.#lines[this.#row] = line.slice(0, this.#column) + part + line.slice(this.#column + part.length)
      this.#column += part.length
    }
  }

  #escape(escape: string): void {
    const kind = escape.at(-1)
    if (kind === 'K') {
      if (this.#column === 0 && this.#lines[this.#row] !== '') this.blanked++
      this.#lines[this.#row] = (this.#lines[this.#row] ?? '').slice(0, this.#column)
    } else if (kind !== 'm')
      throw new Error(`an escape that this terminal does not know: ${JSON.stringify(escape)}`)
  }
}

/** An output into a terminal of so many columns. */
export function onTerminal(columns = 80, color = false): { terminal: Terminal; output: Output } {
  const terminal = new Terminal(columns)
  return { terminal, output: new Output(terminal, { color }) }
}

/** An output into a file: no terminal, no colour. */
export function intoFile(): { text: () => string; output: Output } {
  let written = ''
  const output = new Output({ write: (text) => (written += text) }, { color: false })
  return { text: () => written, output }
}

// oxlint-disable-next-line no-control-regex
export const unstyled = (text: string): string => text.replace(/\u001b\[[\d;]*m/g, '')
