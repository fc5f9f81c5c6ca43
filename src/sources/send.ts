import { parseKeepingNumbers } from '../domain/json.ts'
import { query, type Db } from './db.ts'
import { isolate, type Refused } from './isolate.ts'
import { isRefusal } from './refused.ts'

/**
 * Sends a statement that takes a batch as `$1` and tells of each of its rows, in JSON as text. When the database refuses the batch,
 * the bad rows are isolated and the statement is carried out for the others.
 */
export async function sendBatch<Told extends { readonly i: number }>(
  tx: Db,
  statement: string,
  batch: ReadonlyArray<{ readonly i: number }>,
): Promise<ReadonlyMap<number, Told | Refused>> {
  await query(tx, 'savepoint fillrate_batch')
  let told: ReadonlyArray<Told | Refused>
  try {
    told = await send<Told>(tx, statement, batch)
    await query(tx, 'release savepoint fillrate_batch')
  } catch (error) {
    if (!isRefusal(error)) throw error
    await query(tx, 'rollback to savepoint fillrate_batch')
    told = await isolate<Told>(tx, statement, batch)
  }
  return new Map(told.map((one) => [one.i, one]))
}

/** Sends it as it is: an error is the caller's. */
export async function send<Told>(
  db: Db,
  statement: string,
  batch: readonly unknown[],
): Promise<readonly Told[]> {
  const [row] = await query<{ told: string }>(db, statement, [JSON.stringify(batch)])
  return row === undefined ? [] : (parseKeepingNumbers(row.told) as Told[])
}
