import { setTimeout as sleep } from 'node:timers/promises'
import type { OpenChange } from '../../store/changes.ts'
import { TableBusy } from '../../store/conflict.ts'
import { busyInWords, paceOf, TRIES_OF_ONE } from '../pace.ts'
import type { Rules } from '../deps.ts'
import type { Batch, Outcome, Undone } from './batch.ts'
import { rowOf } from './batches.ts'

/** Changes of the largest batch: one statement on the source. */
export const AT_ONCE = 500
/** Changes that are kept to be tried again: an undo that is run again finds the others. */
const LEFT_AT_MOST = 10_000
const LOOK_MS = 500

export interface PastLocksOptions {
  readonly act: (batch: Batch) => Promise<Undone>
  readonly onOutcome: (outcome: Outcome) => void
  readonly rules: Pick<Rules, 'sourceTimeoutMs' | 'leftWaitMs'>
}

/**
 * Takes batches back around what other transactions hold: locked rows are left, the others are taken back at once, and
 * what was left is tried again for a bounded time. Batches are smaller where the table is slow.
 */
export class PastLocks {
  readonly #options: PastLocksOptions
  /** Rows whose newest open change was left: an older one of them must not be taken back before it. */
  #blocked = new Set<string>()
  #left: Batch[] = []

  constructor(options: PastLocksOptions) {
    this.#options = options
  }

  async take({ source, changes }: Batch): Promise<void> {
    const isBlocked = ({ key }: OpenChange): boolean => this.#blocked.has(rowOf(source, key))
    this.#leave({ source, changes: changes.filter(isBlocked) })
    let open = changes.filter((change) => !isBlocked(change))
    const pace = paceOf(source, AT_ONCE)
    for (let attempt = 1; open.length > 0;) {
      const part = { source, changes: open.slice(0, pace.rows) }
      const began = performance.now()
      try {
        const { outcomes, locked } = await this.#options.act(part)
        pace.took(part.changes.length, performance.now() - began)
        for (const outcome of outcomes) this.#options.onOutcome(outcome)
        this.#leave({ source, changes: locked })
      } catch (error) {
        if (!(error instanceof TableBusy)) throw error
        if (error.isTable) return this.#leave({ source, changes: open })
        if (part.changes.length > 1) {
          pace.cut(part.changes.length)
          continue
        }
        if (error.raised !== null && attempt++ < TRIES_OF_ONE) {
          await sleep(20 * attempt * attempt)
          continue
        }
        this.#giveUp(part, error)
      }
      attempt = 1
      open = open.slice(part.changes.length)
    }
  }

  /** Tries what was left again, until nothing moves any more for a while. */
  async retry(signal: AbortSignal): Promise<void> {
    const { leftWaitMs } = this.#options.rules
    let count = this.#count
    for (let movedAt = performance.now(); count > 0 && performance.now() - movedAt < leftWaitMs;) {
      await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const batches = this.#left
      this.#left = []
      this.#blocked = new Set()
      for (const batch of batches) await this.take(batch)
      if (this.#count < count) movedAt = performance.now()
      count = this.#count
    }
  }

  get #count(): number {
    return this.#left.reduce((sum, batch) => sum + batch.changes.length, 0)
  }

  #leave(batch: Batch): void {
    if (batch.changes.length === 0) return
    for (const { key } of batch.changes) this.#blocked.add(rowOf(batch.source, key))
    if (this.#count < LEFT_AT_MOST) this.#left.push(batch)
  }

  /** The one change of a row that can't be written, or that meets another transaction each time. */
  #giveUp(part: Batch, busy: TableBusy): void {
    if (busy.raised === null && busy.why === 'locked') return this.#leave(part)
    const reason = busyInWords(busy, this.#options.rules.sourceTimeoutMs)
    for (const { key } of part.changes)
      this.#options.onOutcome({
        source: part.source,
        key,
        outcome: 'rejected',
        reason,
        restored: [],
        kept: [],
        writtenBy: null,
      })
  }
}
