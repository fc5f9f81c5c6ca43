export interface BatcherOptions<Item> {
  readonly maxItems?: number
  readonly concurrency?: number
  readonly sizeOf?: (item: Item) => number
  readonly maxBytes?: number
}

/** A record may have 16 MiB, and a jsonb parameter 256 MB: hundreds of records are bounded by their bytes as well. */
const MAX_BATCH_BYTES = 8 * 1024 * 1024

/**
 * Makes many small writes into few large ones: while writes are under way, the next items gather, and go together
 * in the next write. Nothing waits for a timer, so a lone item goes at once.
 *
 * @param write stores a batch; when it throws, each of its items is written alone, and who added it is told
 * @param options.most items in one write
 * @param options.weigh bytes of an item: a write holds `mostBytes` of them, or one item that is larger
 * @param options.writers writes under way at once; with two, one waits for the disk while the other gathers
 * @returns adds one item; resolves when the write that held it has succeeded
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
  let gathered: Entry[] = []
  let writing = 0

  async function drain(): Promise<void> {
    writing++
    // One turn of the event loop, so that answers that are read in the same turn go together.
    await new Promise((resolve) => setImmediate(resolve))
    while (gathered.length > 0) {
      const batch = next()
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

  function next(): Entry[] {
    let bytes = 0
    let count = 0
    for (const entry of gathered.slice(0, maxItems)) {
      bytes += entry.bytes
      if (count > 0 && bytes > maxBytes) break
      count++
    }
    const batch = gathered.slice(0, count)
    gathered = gathered.slice(count)
    return batch
  }

  return (item) =>
    new Promise((resolve, reject) => {
      gathered.push({ item, bytes: sizeOf(item), resolve, reject })
      if (writing < concurrency) void drain()
    })
}
