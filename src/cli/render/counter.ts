import type { Output } from '../output.ts'
import { bar } from './bar.ts'
import { formatCount } from '../../util/format.ts'

const FRAME_MS = 100
const LINE_MS = 10_000
const BAR = 24

/** Shows how far something is that is only counted: a live line on a terminal, elsewhere a line now and then. */
export class CounterView {
  readonly #output: Output
  readonly #what: string
  readonly #now: () => number
  #shownAt: number

  /** @param what is counted: `writes` */
  constructor(output: Output, what: string, now: () => number) {
    this.#output = output
    this.#what = what
    this.#now = now
    this.#shownAt = output.isTTY ? Number.NEGATIVE_INFINITY : now()
  }

  update(done: number, all: number): void {
    const now = this.#now()
    if (now - this.#shownAt < (this.#output.isTTY ? FRAME_MS : LINE_MS)) return
    this.#shownAt = now
    const text = `${formatCount(done)} of ${formatCount(all)} ${this.#what}`
    if (!this.#output.isTTY) this.#output.line(text)
    else this.#output.live([` ${bar(all === 0 ? 0 : done / all, BAR, this.#output.paint)}  ${text}`])
  }

  /** Takes the line away. */
  end(): void {
    this.#output.live([])
  }
}
