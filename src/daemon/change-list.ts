import * as followed from '../store/followed.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type StoreTransaction } from '../store/transaction.ts'

/** Keys of one tick. Few, so that the first of them need not wait for the last. */
const KEYS_A_TICK = 250
/** The same of an import. */
export const MANY_A_TICK = 1_000

/** The list of changes that the triggers write, as the process that follows reads it: at READ COMMITTED, as `inTransaction`. */
export class ChangeList {
  readonly #db: Database
  /** How far each import has been read. */
  readonly #read = new Map<string, number>()

  constructor(db: Database) {
    this.#db = db
  }

  next(sources: readonly string[]): Promise<followed.ChangedRows[]> {
    return this.#in((tx) => followed.next(tx, sources, KEYS_A_TICK))
  }

  /** Takes off the list what is picked. */
  done(changes: readonly followed.ChangedRows[]): Promise<void> {
    return changes.length === 0 ? Promise.resolve() : this.#in((tx) => followed.done(tx, changes))
  }

  /** The next part of the oldest import. */
  nextImport(sources: readonly string[]): Promise<followed.ChangedByImport | null> {
    return this.#in((tx) => followed.nextImport(tx, sources, (id) => this.#read.get(id) ?? 0, MANY_A_TICK))
  }

  /** This part of an import is picked: it goes on with the next, and comes off the list with the last. */
  async pickedPart(part: followed.ChangedByImport): Promise<void> {
    const read = (this.#read.get(part.id) ?? 0) + part.keys.length
    this.#read.set(part.id, read)
    if (read < part.total && part.keys.length > 0) return
    this.#read.delete(part.id)
    await this.done([part])
  }

  /** @param waiting sources that nothing is picked from for now */
  async tidy(waiting: readonly string[]): Promise<void> {
    await this.#in((tx) => followed.merge(tx, waiting, KEYS_A_TICK))
  }

  #in<T>(act: (tx: StoreTransaction) => Promise<T>): Promise<T> {
    return inTransaction(this.#db, act)
  }
}
