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
  /** How far each bulk change has been read. */
  readonly #bulkOffsets = new Map<string, number>()

  constructor(db: Database) {
    this.#db = db
  }

  next(sources: readonly string[]): Promise<changedRows.ChangedRows[]> {
    return this.#transact((tx) => changedRows.listChangedRows(tx, sources, KEYS_PER_TICK))
  }

  /** Removes picked changes. */
  remove(changes: readonly changedRows.ChangedRows[]): Promise<void> {
    return changes.length === 0
      ? Promise.resolve()
      : this.#transact((tx) => changedRows.removeChanges(tx, changes))
  }

  /** The next part of the oldest bulk change. */
  nextBulkPart(sources: readonly string[]): Promise<changedRows.BulkChange | null> {
    return this.#transact((tx) =>
      changedRows.nextBulkChange(tx, sources, (id) => this.#bulkOffsets.get(id) ?? 0, BULK_KEYS_PER_TICK),
    )
  }

  /** Advances past a picked part; removes the bulk change after its last one. */
  async advanceBulk(part: changedRows.BulkChange): Promise<void> {
    const read = (this.#bulkOffsets.get(part.id) ?? 0) + part.keys.length
    this.#bulkOffsets.set(part.id, read)
    if (read < part.total && part.keys.length > 0) return
    this.#bulkOffsets.delete(part.id)
    await this.remove([part])
  }

  /** @param waiting sources that are not picked from at present */
  async maintain(waiting: readonly string[]): Promise<void> {
    await this.#transact((tx) => changedRows.mergeChanges(tx, waiting, KEYS_PER_TICK))
  }

  #transact<T>(act: (tx: Tx) => Promise<T>): Promise<T> {
    return inTransaction(this.#db, act)
  }
}
