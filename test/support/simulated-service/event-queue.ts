interface Event {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

/** Virtual time: scheduled events in the order of time (milliseconds since the epoch). A binary heap. */
export class EventQueue {
  now: number
  readonly #heap: Event[] = []
  #order = 0

  constructor(start: number) {
    this.now = start
  }

  get isEmpty(): boolean {
    return this.#heap.length === 0
  }

  at(time: number, run: () => void): void {
    const heap = this.#heap
    const event = { at: Math.max(time, this.now), order: this.#order++, run }
    let index = heap.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = heap[parent]
      if (above === undefined || !isBefore(event, above)) break
      heap[index] = above
      index = parent
    }
    heap[index] = event
  }

  /** Runs the next event. */
  step(): void {
    const heap = this.#heap
    const top = heap[0]
    const last = heap.pop()
    if (top === undefined || last === undefined) return
    if (heap.length > 0) sink(heap, last)
    this.now = top.at
    top.run()
  }
}

function sink(heap: Event[], event: Event): void {
  let index = 0
  for (;;) {
    let child = 2 * index + 1
    let below = heap[child]
    if (below === undefined) break
    const right = heap[child + 1]
    if (right !== undefined && isBefore(right, below)) {
      child++
      below = right
    }
    if (isBefore(event, below)) break
    heap[index] = below
    index = child
  }
  heap[index] = event
}

const isBefore = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)
