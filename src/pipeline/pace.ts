import type { Source } from '../sources/source.ts'
import type { TableBusy } from '../store/conflict.ts'

/** A batch that takes longer holds the locks on its rows for longer than a person should wait for them. */
export const SLOW_MS = 1_000
/** A batch that takes less may be twice as large the next time. */
const FAST_MS = SLOW_MS / 4
/** Of several rows, none may be at fault: they get less time, because what is cut is done again in smaller batches. */
const SEVERAL_MS = 5_000

/** How many rows of a source are written in one statement: fewer where the table is slow, more when it is fast again. */
export class Pace {
  readonly #most: number
  #rows: number

  /** @param most rows of the largest batch */
  constructor(most: number) {
    this.#most = most
    this.#rows = most
  }

  /** Rows of the next batch. */
  get rows(): number {
    return this.#rows
  }

  /** A batch of so many rows was written in so long. */
  took(rows: number, ms: number): void {
    if (ms > SLOW_MS) this.#rows = Math.max(1, Math.min(this.#rows, Math.floor((rows * SLOW_MS) / ms)))
    else if (ms < FAST_MS && rows >= this.#rows) this.#rows = Math.min(this.#most, this.#rows * 2)
  }

  /** A batch of so many rows was cut off, because it took too long or met another transaction. */
  cut(rows: number): void {
    this.#rows = Math.max(1, Math.min(this.#rows, Math.floor(rows / 2)))
  }
}

/** How long the statement on the source may take, in milliseconds. Pure. */
export const timeLimitOf = (rows: number, sourceTimeoutMs: number): number =>
  rows > 1 ? Math.min(SEVERAL_MS, sourceTimeoutMs) : sourceTimeoutMs

const paces = new WeakMap<Source, Pace>()

/** The pace of a source in this process: of all that write to it, because it is the table that is slow. */
export function paceOf(source: Source, most: number): Pace {
  const known = paces.get(source)
  if (known !== undefined) return known
  const pace = new Pace(most)
  paces.set(source, pace)
  return pace
}

/** How often one row is written before what a trigger raises at it each time counts as its answer. */
export const TRIES_OF_ONE = 5

/** Why a batch was given up, or its only row refused. */
export function busyInWords({ why, raised, isTable, cause }: TableBusy, limitMs: number): string {
  if (raised !== null) return `raised by a trigger or function: ${raised}`
  if (why === 'slow')
    return `writing this row alone took longer than ${limitMs / 1_000} s: look at the triggers of its table, then \`fillrate retry\``
  if (isTable) return 'another transaction has locked the table: tried again when that has ended'
  const { code = '' } = cause as { code?: string }
  return `another transaction was met (${code}): tried again`
}
