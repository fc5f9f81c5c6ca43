import type { Permits } from './permits.ts'

/** What is urgent goes first: a sync's lookups, then a nightly run's, then a backfill's. */
export type Priority = 'urgent' | 'normal' | 'low'

const order: readonly Priority[] = ['urgent', 'normal', 'low']

export interface Waiting {
  readonly upTo: number
  readonly priority: Priority
  readonly serve: (permits: Permits) => void
  readonly refuse: (reason: Error) => void
}

/** Who waits for permits, by priority and then in the order of coming. */
export class WaitingList {
  readonly #lines: Record<Priority, Set<Waiting>> = {
    urgent: new Set(),
    normal: new Set(),
    low: new Set(),
  }

  get count(): number {
    return this.#lines.urgent.size + this.#lines.normal.size + this.#lines.low.size
  }

  get first(): Waiting | null {
    return this.at(0)
  }

  /** The one before which `index` others are served. */
  at(index: number): Waiting | null {
    let left = index
    for (const priority of order) {
      for (const waiting of this.#lines[priority]) {
        if (left === 0) return waiting
        left--
      }
    }
    return null
  }

  add(waiting: Waiting): void {
    this.#lines[waiting.priority].add(waiting)
  }

  remove(waiting: Waiting): void {
    this.#lines[waiting.priority].delete(waiting)
  }

  refuseAll(reason: Error): void {
    for (const priority of order) {
      for (const waiting of this.#lines[priority]) waiting.refuse(reason)
      this.#lines[priority].clear()
    }
  }
}
