/**
 * Makes many small writes into few large ones: while writes are under way, the next items gather, and go together
 * in the next write. Nothing waits for a timer, so a lone item goes at once.
 *
 * @param write stores a batch; when it throws, everyone whose item was in it is told
 * @param options.most items in one write
 * @param options.writers writes under way at once; with two, one waits for the disk while the other gathers
 * @returns adds one item; resolves when the write that held it has succeeded
 */
export function gather<Item, Result = void>(
  write: (items: Item[]) => Promise<Result>,
  { most = 500, writers = 1 }: { readonly most?: number; readonly writers?: number } = {},
): (item: Item) => Promise<Result> {
  interface Entry {
    readonly item: Item
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
      const batch = gathered.slice(0, most)
      gathered = gathered.slice(most)
      try {
        const result = await write(batch.map((entry) => entry.item))
        for (const entry of batch) entry.resolve(result)
      } catch (error) {
        for (const entry of batch) entry.reject(error)
      }
    }
    writing--
  }

  return (item) =>
    new Promise((resolve, reject) => {
      gathered.push({ item, resolve, reject })
      if (writing < writers) void drain()
    })
}
