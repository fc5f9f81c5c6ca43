import * as changedRows from '../store/changed-rows.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'

/** Keys picked per tick. Few, so that the first ones need not wait for the last. */
const KEYS_PER_TICK = 250
/** Keys of a bulk change picked per tick. */
export const BULK_KEYS_PER_TICK = 1_000

/**
 * The queue of changes that the triggers fill, read by the live sync process at READ COMMITTED, as with
 * `inTransaction`.
 */
export class ChangeQueue {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  next(sources: readonly string[]): Promise<changedRows.ChangedRows[]> {
    return this.#transact((tx) => changedRows.listChangedRows(tx, sources, KEYS_PER_TICK))
  }

  /**
   * Removes picked changes.
   * @param skipped the keys of each source that a budget could not pay: they stay
   * @returns how many were picked whole
   */
  async advance(
    changes: readonly changedRows.ChangedRows[],
    skipped: ReadonlyMap<string, ReadonlySet<string>>,
  ): Promise<number> {
    const read = changes.map((one) => ({
      ...one,
      read: one.keys.length,
      skipped: one.keys.filter((key) => skipped.get(one.source)?.has(key)),
    }))
    const picked = read.filter((one) => one.skipped.length === 0)
    await this.#transact(async (tx) => {
      await changedRows.removeChanges(tx, picked)
      await changedRows.keepSkippedKeys(
        tx,
        read.filter((one) => one.skipped.length > 0 && one.skipped.length < one.read),
      )
    })
    return picked.length
  }

  /** The next part of the oldest bulk change. */
  nextBulkPart(sources: readonly string[]): Promise<changedRows.BulkChange | null> {
    return this.#transact((tx) => changedRows.nextBulkChange(tx, sources, BULK_KEYS_PER_TICK))
  }

  /** Advances past a picked part; removes the bulk change after its last one. @param skipped the keys that stay */
  async advanceBulk(part: changedRows.BulkChange, skipped: readonly string[]): Promise<void> {
    if (skipped.length === part.keys.length) return
    const read = part.picked + part.keys.length
    await this.#transact((tx) =>
      skipped.length === 0
        ? changedRows.advanceBulkChange(tx, part)
        : changedRows.keepSkippedKeys(tx, [{ ...part, skipped, read }]),
    )
  }

  /** @param waiting sources that are not picked from at present */
  async maintain(waiting: readonly string[]): Promise<void> {
    await this.#transact((tx) => changedRows.mergeChanges(tx, waiting, KEYS_PER_TICK))
  }

  #transact<T>(act: (tx: Tx) => Promise<T>): Promise<T> {
    return inTransaction(this.#db, act)
  }
}
