import * as followed from '../store/changed-rows.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'

/** Keys of one tick. Few, so that the first of them need not wait for the last. */
const KEYS_PER_TICK = 250
/** The same of an import. */
export const BULK_KEYS_PER_TICK = 1_000

/** The list of changes that the triggers write, as the process that follows reads it: at READ COMMITTED, as `inTransaction`. */
export class ChangeQueue {
  readonly #db: Database
  /** How far each import has been read. */
  readonly #bulkOffsets = new Map<string, number>()

  constructor(db: Database) {
    this.#db = db
  }

  next(sources: readonly string[]): Promise<followed.ChangedRows[]> {
    return this.#transact((tx) => followed.listChangedRows(tx, sources, KEYS_PER_TICK))
  }

  /** Takes off the list what is picked. */
  remove(changes: readonly followed.ChangedRows[]): Promise<void> {
    return changes.length === 0
      ? Promise.resolve()
      : this.#transact((tx) => followed.removeChanges(tx, changes))
  }

  /** The next part of the oldest import. */
  nextBulkPart(sources: readonly string[]): Promise<followed.BulkChange | null> {
    return this.#transact((tx) =>
      followed.nextBulkChange(tx, sources, (id) => this.#bulkOffsets.get(id) ?? 0, BULK_KEYS_PER_TICK),
    )
  }

  /** This part of an import is picked: it goes on with the next, and comes off the list with the last. */
  async advanceBulk(part: followed.BulkChange): Promise<void> {
    const read = (this.#bulkOffsets.get(part.id) ?? 0) + part.keys.length
    this.#bulkOffsets.set(part.id, read)
    if (read < part.total && part.keys.length > 0) return
    this.#bulkOffsets.delete(part.id)
    await this.remove([part])
  }

  /** @param waiting sources that nothing is picked from for now */
  async maintain(waiting: readonly string[]): Promise<void> {
    await this.#transact((tx) => followed.mergeChanges(tx, waiting, KEYS_PER_TICK))
  }

  #transact<T>(act: (tx: Tx) => Promise<T>): Promise<T> {
    return inTransaction(this.#db, act)
  }
}
