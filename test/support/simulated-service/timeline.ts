import type { Arrival } from './service.ts'

interface Entry {
  readonly order: number
  readonly sentAt: number
  arrivedAt: number | null
  endedAt: number | null
  arrival: Arrival | null
  isLost: boolean
}

/** The first calls are kept, because millions would not fit into memory. */
const MOST_ENTRIES = 200_000

/** What happened, call by call: read it when a case fails. */
export class Timeline {
  readonly entries: Entry[] = []
  readonly #start: number

  constructor(start: number) {
    this.#start = start
  }

  sent(order: number, at: number): Entry {
    const entry = { order, sentAt: at, arrivedAt: null, endedAt: null, arrival: null, isLost: false }
    if (this.entries.length < MOST_ENTRIES) this.entries.push(entry)
    return entry
  }

  arrived(entry: Entry, at: number, arrival: Arrival): void {
    entry.arrivedAt = at
    entry.arrival = arrival
  }

  answered(entry: Entry, at: number): void {
    entry.endedAt = at
  }

  lost(entry: Entry, at: number): void {
    entry.endedAt = at
    entry.isLost = true
  }

  /** The calls around the first 429, or the last ones; times in seconds since the start. */
  print(around = 60): string {
    const rejection = this.entries.findIndex((entry) => entry.arrival?.status === 429)
    const centre = rejection === -1 ? this.entries.length : rejection + 10
    const lines = this.entries.slice(Math.max(0, centre - around), centre).map((entry) => {
      const headers = entry.arrival?.headers ?? {}
      const rateHeaders = ['limit', 'remaining', 'reset']
        .map((name) => headers[`x-ratelimit-${name}`] ?? '-')
        .join('/')
      const retry = headers['retry-after'] === undefined ? '' : ` retry-after ${headers['retry-after']}`
      const window = entry.arrival?.verdict?.window
      return [
        `#${entry.order}`.padEnd(7),
        `sent ${this.#time(entry.sentAt)}`,
        `arrived ${this.#time(entry.arrivedAt)}`,
        `${entry.isLost ? 'lost' : 'answered'} ${this.#time(entry.endedAt)}`,
        `${entry.arrival?.status ?? '---'} ${rateHeaders}${retry}`,
        window === undefined || window === 0 ? '' : `window ${window}`,
      ].join('  ')
    })
    return lines.join('\n')
  }

  #time(at: number | null): string {
    return (at === null ? '-' : ((at - this.#start) / 1000).toFixed(3)).padStart(9)
  }
}
