const WINDOW_MS = 15_000
/** Sooner than this a rate is a guess. */
const LEAST_MS = 2_000

/** How fast a number grows, over the last seconds. Time comes with each sample. */
export class Trend {
  #samples: { readonly at: number; readonly value: number }[] = []

  add(at: number, value: number): void {
    this.#samples.push({ at, value })
    // One sample older than the window stays: from it on, the whole window is covered.
    const stale = this.#samples.findLastIndex((sample) => sample.at < at - WINDOW_MS)
    if (stale > 0) this.#samples = this.#samples.slice(stale)
  }

  /** A second; null while it is too soon to tell. */
  get perSecond(): number | null {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)]
    if (first === undefined || last === undefined || last.at - first.at < LEAST_MS) return null
    return Math.max(0, (last.value - first.value) / ((last.at - first.at) / 1_000))
  }
}
