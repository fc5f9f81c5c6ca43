interface BatcherOptions<Item> {
  readonly maxItems?: number
  readonly concurrency?: number
  readonly sizeOf?: (item: Item) => number
  readonly maxBytes?: number
  /**
   * Milliseconds that an item may wait for others, evaluated for each item; a write begins earlier once `fullAt()` items wait.
   * Default: 0, an item is written at once.
   */
  readonly gatherMs?: () => number
  readonly fullAt?: () => number
}

/** A record may have 16 MiB and a parameter 1 GB, and both ends hold copies, so batches are bounded by their bytes as well. */
const MAX_BATCH_BYTES = 8 * 1024 * 1024

/**
 * Turns many small writes into few large ones: items added during a write go into the next one together. Without
 * `gatherMs` there is no timer, and a single item is written at once.
 * @param write stores a batch; if it throws, each item is written alone and only the adder of a failing item gets
 *   the error
 * @param options.maxItems items per write
 * @param options.sizeOf bytes of an item: a write holds up to `maxBytes`, or one larger item
 * @param options.concurrency writes at once; with two, one waits for the disk while the other fills
 * @returns adds one item; resolves when its write has succeeded
 */
export function createBatcher<Item, Result = void>(
  write: (items: Item[]) => Promise<Result>,
  options: BatcherOptions<Item> = {},
): (item: Item) => Promise<Result> {
  const batcher = new Batcher(write, options)
  return (item) => batcher.add(item)
}

/** An item that waits, with its adder. */
interface Entry<Item, Result> {
  readonly item: Item
  readonly bytes: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

class Batcher<Item, Result> {
  readonly #write: (items: Item[]) => Promise<Result>
  readonly #options: Required<BatcherOptions<Item>>
  #pending: Entry<Item, Result>[] = []
  #pendingBytes = 0
  #writing = 0
  /** When the oldest waiting items must be written, by `performance.now()`. */
  #dueAt = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | null = null
  /** When it fires: most items are due after the first one, and need none of their own. */
  #timerAt = 0

  constructor(write: (items: Item[]) => Promise<Result>, options: BatcherOptions<Item>) {
    const maxItems = options.maxItems ?? 500
    this.#write = write
    this.#options = {
      concurrency: 1,
      sizeOf: () => 0,
      maxBytes: MAX_BATCH_BYTES,
      gatherMs: () => 0,
      fullAt: () => maxItems,
      ...options,
      maxItems,
    }
  }

  add(item: Item): Promise<Result> {
    const { sizeOf, gatherMs } = this.#options
    return new Promise((resolve, reject) => {
      const bytes = sizeOf(item)
      this.#pending.push({ item, bytes, resolve, reject })
      this.#pendingBytes += bytes
      this.#dueAt = Math.min(this.#dueAt, performance.now() + gatherMs())
      this.#start()
    })
  }

  #isDue(): boolean {
    const { fullAt, maxBytes } = this.#options
    return (
      this.#pending.length >= fullAt() || this.#pendingBytes >= maxBytes || performance.now() >= this.#dueAt
    )
  }

  #start(): void {
    if (this.#writing >= this.#options.concurrency || this.#pending.length === 0) return
    if (this.#isDue()) {
      this.#stopTimer()
      void this.#drain()
    } else if (this.#timer === null || this.#dueAt < this.#timerAt) {
      this.#stopTimer()
      this.#timerAt = this.#dueAt
      this.#timer = setTimeout(
        () => {
          this.#timer = null
          this.#start()
        },
        Math.max(1, this.#dueAt - performance.now()),
      )
    }
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  async #drain(): Promise<void> {
    this.#writing++
    // One turn of the event loop, so that items added in the same turn are written together.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#pending.length > 0 && this.#isDue()) {
      const batch = this.#takeBatch()
      try {
        const result = await this.#write(batch.map((entry) => entry.item))
        for (const entry of batch) entry.resolve(result)
      } catch (error) {
        if (batch.length === 1) batch[0]?.reject(error)
        else for (const entry of batch) await this.#write([entry.item]).then(entry.resolve, entry.reject)
      }
    }
    this.#writing--
    this.#start()
  }

  #takeBatch(): Entry<Item, Result>[] {
    const { maxItems, maxBytes } = this.#options
    let bytes = 0
    let count = 0
    for (const entry of this.#pending.slice(0, maxItems)) {
      if (count > 0 && bytes + entry.bytes > maxBytes) break
      bytes += entry.bytes
      count++
    }
    const batch = this.#pending.slice(0, count)
    this.#pending = this.#pending.slice(count)
    this.#pendingBytes -= bytes
    if (this.#pending.length === 0) this.#dueAt = Number.POSITIVE_INFINITY
    return batch
  }
}

/**
 * About how many characters the JSON of a value has, without writing it: for bounds of memory, not for exact sizes. Characters that JSON escapes count as one, and what is no text, array or object as eight.
 */
export function estimateJsonSize(value: unknown): number {
  if (typeof value === 'string') return value.length + 2
  if (typeof value !== 'object' || value === null) return 8
  let size = 2
  if (Array.isArray(value)) for (const item of value) size += estimateJsonSize(item) + 1
  else
    for (const field of Object.keys(value))
      size += field.length + 4 + estimateJsonSize((value as Readonly<Record<string, unknown>>)[field])
  return size
}
