export interface BatcherOptions<Item> {
  readonly maxItems?: number
  readonly concurrency?: number
  readonly sizeOf?: (item: Item) => number
  readonly maxBytes?: number
}

/** A record may have 16 MiB and a jsonb parameter 256 MB, so batches are bounded by their bytes as well. */
const MAX_BATCH_BYTES = 8 * 1024 * 1024

/**
 * Turns many small writes into few large ones: items added during a write go into the next one together. No timer, so
 * that a single item is written at once.
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
  }: BatcherOptions<Item> = {},
): (item: Item) => Promise<Result> {
  interface Entry {
    readonly item: Item
    readonly bytes: number
    readonly resolve: (result: Result) => void
    readonly reject: (error: unknown) => void
  }
  let pending: Entry[] = []
  let writing = 0

  async function drain(): Promise<void> {
    writing++
    // One turn of the event loop, so that items added in the same turn are written together.
    await new Promise((resolve) => setImmediate(resolve))
    while (pending.length > 0) {
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
    return batch
  }

  return (item) =>
    new Promise((resolve, reject) => {
      pending.push({ item, bytes: sizeOf(item), resolve, reject })
      if (writing < concurrency) void drain()
    })
}
