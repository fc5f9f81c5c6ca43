import { setTimeout as sleep } from 'node:timers/promises'
import { describeTableBusy, MAX_SINGLE_ROW_TRIES, sharedBatchSize } from '../../pipeline/batch-size.ts'
import type { RunPolicy } from '../../pipeline/deps.ts'
import type { UndoableChange } from '../../store/changes.ts'
import type { Database } from '../../store/open.ts'
import { TableBusyError } from '../../store/transaction.ts'
import { rowIdentity, type RevertBatch, type RevertOutcome, type RevertResult } from './revert-batch.ts'

/** Changes of the largest batch: one statement on the source. */
export const CHANGES_PER_BATCH = 500
/** Deferred changes in memory. The others are found when the undo is run again. */
const MAX_DEFERRED = 10_000
const RETRY_MS = 500

interface RevertQueueOptions {
  readonly db: Database
  readonly revert: (batch: RevertBatch) => Promise<RevertResult>
  readonly onOutcome: (outcome: RevertOutcome) => void
  readonly policy: Pick<RunPolicy, 'sourceTimeoutMs' | 'lockedWaitMs'>
}

/**
 * Reverts batches despite locks: locked rows are deferred, the others are reverted at once, and deferred ones are
 * retried for a bounded time. Batches shrink if the table is slow.
 */
export class RevertQueue {
  readonly #options: RevertQueueOptions
  /** Rows whose newest change was deferred: an older one must not be reverted before it. */
  #blockedRows = new Set<string>()
  #deferred: RevertBatch[] = []

  constructor(options: RevertQueueOptions) {
    this.#options = options
  }

  async revert({ source, changes }: RevertBatch): Promise<void> {
    const isBlocked = ({ key }: UndoableChange): boolean => this.#blockedRows.has(rowIdentity(source, key))
    this.#defer({ source, changes: changes.filter(isBlocked) })
    let remaining = changes.filter((change) => !isBlocked(change))
    const batchSize = sharedBatchSize(source)
    for (let attempt = 1; remaining.length > 0;) {
      const batch = { source, changes: remaining.slice(0, batchSize.rows) }
      const startedAt = performance.now()
      try {
        const { outcomes, lockedChanges } = await this.#options.revert(batch)
        batchSize.onBatch(batch.changes.length, performance.now() - startedAt)
        for (const outcome of outcomes) this.#options.onOutcome(outcome)
        this.#defer({ source, changes: lockedChanges })
      } catch (error) {
        if (!(error instanceof TableBusyError)) throw error
        if (error.isTableLock) return this.#defer({ source, changes: remaining })
        if (batch.changes.length > 1) {
          batchSize.halve(batch.changes.length)
          continue
        }
        if (error.isRaised && attempt++ < MAX_SINGLE_ROW_TRIES) {
          await sleep(20 * attempt * attempt)
          continue
        }
        await this.#giveUpRow(batch, error)
      }
      attempt = 1
      remaining = remaining.slice(batch.changes.length)
    }
  }

  /** Retries what was deferred, until nothing has progressed for a while. */
  async retryLocked(signal: AbortSignal): Promise<void> {
    const { lockedWaitMs } = this.#options.policy
    let count = this.#deferredCount
    for (
      let lastProgressAt = performance.now();
      count > 0 && performance.now() - lastProgressAt < lockedWaitMs;
    ) {
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const batches = this.#deferred
      this.#deferred = []
      this.#blockedRows = new Set()
      for (const batch of batches) await this.revert(batch)
      if (this.#deferredCount < count) lastProgressAt = performance.now()
      count = this.#deferredCount
    }
  }

  get #deferredCount(): number {
    return this.#deferred.reduce((sum, batch) => sum + batch.changes.length, 0)
  }

  #defer(batch: RevertBatch): void {
    if (batch.changes.length === 0) return
    for (const { key } of batch.changes) this.#blockedRows.add(rowIdentity(batch.source, key))
    if (this.#deferredCount < MAX_DEFERRED) this.#deferred.push(batch)
  }

  /**
   * Handles the single change of a row that cannot be written, or that conflicts with another transaction each time.
   */
  async #giveUpRow(batch: RevertBatch, tableBusy: TableBusyError): Promise<void> {
    if (!tableBusy.isRaised && tableBusy.reason !== 'slow') return this.#defer(batch)
    const reason = await describeTableBusy(this.#options.db, tableBusy, this.#options.policy.sourceTimeoutMs)
    for (const { key } of batch.changes)
      this.#options.onOutcome({
        source: batch.source,
        key,
        outcome: 'rejected',
        reason,
        restored: [],
        kept: [],
        writtenBy: null,
        isOther: false,
      })
  }
}
