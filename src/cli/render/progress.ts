import type { RunProgress } from '../../runs/counters.ts'
import type { Output } from '../output.ts'
import { progressBlock, progressLine } from './progress-text.ts'
import { Trend } from './trend.ts'

/** A terminal is drawn at most this often. */
const FRAME_MS = 100
/** Elsewhere a line is written this often. */
const LINE_MS = 10_000

/**
 * Shows how far a run is: a live block on a terminal, elsewhere a line now and then. The clock is the run's own, in
 * `elapsedMs`.
 */
export class ProgressView {
  readonly #output: Output
  readonly #trend = new Trend()
  #shownAt = Number.NEGATIVE_INFINITY

  constructor(output: Output) {
    this.#output = output
    if (!output.isTTY) this.#shownAt = 0
  }

  update(progress: RunProgress): void {
    const { elapsedMs } = progress
    this.#trend.add(elapsedMs, progress.finished)
    if (elapsedMs - this.#shownAt < (this.#output.isTTY ? FRAME_MS : LINE_MS)) return
    this.#shownAt = elapsedMs
    const { paint, columns } = this.#output
    const perSecond = this.#trend.perSecond
    if (columns === null) this.#output.line(progressLine(progress, perSecond))
    else this.#output.live(progressBlock(progress, perSecond, { columns, paint }))
  }

  /** Takes the block away, and gives the cursor back. */
  end(): void {
    this.#output.live([])
  }
}
