export interface BatcherOptions<Item> {
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
 *
 * @param write stores a batch; if it throws, each item is written alone and only the adder of a failing item gets the
 * error
 * @param options.maxItems items per write
 * @param options.sizeOf bytes of an item: a write holds up to `maxBytes`, or one larger item
 * @param options.concurrency writes in progress at once; with two, one waits for the disk while the other fills
 * @returns adds one item; resolves when its write has succeeded
 */
export function createBatcher<Item, Result = void>(
  write: (items: Item[]) => Promise<Result>,
  {
    maxItems = 500,
    concurrency = 1,
    sizeOf = () => 0,
    maxBytes = MAX_BATCH_BYTES,
    gatherMs = () => 0,
    fullAt = () => maxItems,
  }: BatcherOptions<Item> = {},
): (item: Item) => Promise<Result> {
  interface Entry {
    readonly item: Item
    readonly bytes: number
    readonly resolve: (result: Result) => void
    readonly reject: (error: unknown) => void
  }
  let pending: Entry[] = []
  let pendingBytes = 0
  let writing = 0
  /** When the oldest waiting items must be written, by `performance.now()`. */
  let dueAt = Number.POSITIVE_INFINITY
  let timer: NodeJS.Timeout | null = null
  /** When it fires: most items are due after the first one, and need none of their own. */
  let timerAt = 0

  const isDue = (): boolean =>
    pending.length >= fullAt() || pendingBytes >= maxBytes || performance.now() >= dueAt

  function start(): void {
    if (writing >= concurrency || pending.length === 0) return
    if (isDue()) {
      stopTimer()
      void drain()
    } else if (timer === null || dueAt < timerAt) {
      stopTimer()
      timerAt = dueAt
      timer = setTimeout(onTimer, Math.max(1, dueAt - performance.now()))
    }
  }

  function stopTimer(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
  }

  function onTimer(): void {
    timer = null
    start()
  }

  async function drain(): Promise<void> {
    writing++
    // One turn of the event loop, so that items added in the same turn are written together.
    await new Promise((resolve) => setImmediate(resolve))
    while (pending.length > 0 && isDue()) {
      const batch = takeBatch()
      try {
        const result = await write(batch.map((entry) => entry.item))
        for (const entry of batch) entry.resolve(result)
      } catch (error) {
        if (batch.length === 1) batch[0]?.reject(error)
        else for (const entry of batch) await write([entry.item]).then(entry.resolve, entry.reject)
      }
    }
    writing--
    start()
  }

  function takeBatch(): Entry[] {
    let bytes = 0
    let count = 0
    for (const entry of pending.slice(0, maxItems)) {
      bytes += entry.bytes
      if (count > 0 && bytes > maxBytes) break
      count++
    }
    const batch = pending.slice(0, count)
    pending = pending.slice(count)
    pendingBytes -= bytesOf(batch)
    if (pending.length === 0) dueAt = Number.POSITIVE_INFINITY
    return batch
  }

  return (item) =>
    new Promise((resolve, reject) => {
      const bytes = sizeOf(item)
      pending.push({ item, bytes, resolve, reject })
      pendingBytes += bytes
      dueAt = Math.min(dueAt, performance.now() + gatherMs())
      start()
    })
}

const bytesOf = (entries: ReadonlyArray<{ readonly bytes: number }>): number =>
  entries.reduce((sum, { bytes }) => sum + bytes, 0)

/**
 * About how many characters the JSON of a value has, at a sixth of the time of writing it: for bounds of memory, not for exact
 * sizes. Characters that JSON escapes count as one, and what is no text, array or object as eight.
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
