/**
 * Chooses some of a stream of items at random, each with the same chance. The first ones would be no sample: rows come in
 * key order, and old rows differ from new ones.
 */
export class RandomSample<Item> {
  readonly #max: number
  readonly #random: () => number
  /** The items with the lowest numbers, in the order of these numbers. */
  readonly #kept: { readonly order: number; readonly index: number; readonly item: Item }[] = []
  #count = 0

  /**
   * @param max items to choose
   * @param random 0..1
   */
  constructor(max: number, random: () => number) {
    this.#max = max
    this.#random = random
  }

  add(item: Item): void {
    const entry = { order: this.#random(), index: this.#count++, item }
    if (this.#kept.length === this.#max && entry.order >= (this.#kept.at(-1)?.order ?? 0)) return
    const after = this.#kept.findIndex(({ order }) => order > entry.order)
    this.#kept.splice(after === -1 ? this.#kept.length : after, 0, entry)
    if (this.#kept.length > this.#max) this.#kept.pop()
  }

  get size(): number {
    return this.#kept.length
  }

  /** Some of the chosen items, in the order of the stream. */
  take(count = this.#max): Item[] {
    return this.#kept
      .slice(0, count)
      .sort((a, b) => a.index - b.index)
      .map(({ item }) => item)
  }
}

/** Takes items from each sample as evenly as their sizes allow, up to `max` in all. */
export function sampleEvenly<Item>(samples: readonly RandomSample<Item>[], max: number): Item[] {
  const shares = new Map<RandomSample<Item>, number>()
  let remaining = max
  const smallestFirst = samples.toSorted((a, b) => a.size - b.size)
  for (const [n, sample] of smallestFirst.entries()) {
    const share = Math.min(sample.size, Math.floor(remaining / (samples.length - n)))
    shares.set(sample, share)
    remaining -= share
  }
  return samples.flatMap((sample) => sample.take(shares.get(sample)))
}
