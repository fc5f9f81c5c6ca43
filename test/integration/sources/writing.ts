import { sql, type RawBuilder, type Transaction } from 'kysely'
import { coerceRecord } from '../../../src/sources/coerce/record.ts'
import { filterCastableKeys, keysQuery, pageColumnsSql, type PageRow } from '../../../src/sources/page.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { restoreBatch, writeBatch, type UndoRow, type WriteResult } from '../../../src/sources/write/write.ts'
import type { WriteRow } from '../../../src/sources/write/write-update.ts'
import type { Database, Schema } from '../../../src/store/open.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import type { TestDatabase } from '../../support/database.ts'

export interface Writing {
  readonly written?: Record<string, unknown>
  readonly confidence?: number
}

/** The rows of a page with their hashes. */
export async function readPage(db: Database, source: Source, page: RawBuilder<unknown>): Promise<PageRow[]> {
  const { rows } = await sql<PageRow>`select ${pageColumnsSql(source)} from (${page}) as page`.execute(db)
  return rows
}

/** Reads rows and coerces a record for them, as the pipeline does before it writes. */
export async function prepare(
  database: TestDatabase,
  source: Source,
  keys: readonly string[],
  record: unknown,
  { written, confidence = 0.9 }: Writing = {},
): Promise<WriteRow[]> {
  const rows = await readPage(database.db, source, keysQuery(source, keys))
  return keys.flatMap((key) =>
    rows
      .filter((row) => row.key === key)
      .map((row) => ({
        key,
        inputHash: row.input_hash,
        values: coerceRecord(source, typeof record === 'function' ? record(key) : record, confidence).values,
        lastWritten: written ?? null,
        confidence,
      })),
  )
}

/** Writes one record to rows, or a record computed from each key. */
export async function write(
  database: TestDatabase,
  source: Source,
  keys: readonly string[],
  record: unknown,
  options: Writing = {},
): Promise<WriteResult[]> {
  const batch = await prepare(database, source, keys, record, options)
  return await transact(database, (tx) => writeBatch(tx, source, batch))
}

/** A write to undo, made for the inputs that its row has now. */
export type Written = Omit<UndoRow, 'inputHash'>

/** Undoes writes. */
export async function undo(
  database: TestDatabase,
  source: Source,
  rows: readonly Written[],
): Promise<WriteResult[]> {
  const batch = await withInputs(database, source, rows)
  return inTransaction(database.db, (tx) => restoreBatch(tx, source, batch))
}

/** Writes to undo, as if they were made for the inputs that the rows have now. */
export async function withInputs(
  database: TestDatabase,
  source: Source,
  rows: readonly Written[],
): Promise<UndoRow[]> {
  const keys = rows.map(({ key }) => key)
  const page = keysQuery(source, await transact(database, (tx) => filterCastableKeys(tx, source, keys)))
  const hashes = new Map(
    (await readPage(database.db, source, page)).map((row) => [row.key, row.input_hash] as const),
  )
  return rows.map((row) => ({ ...row, inputHash: hashes.get(row.key) ?? null }))
}

export const transact = <T>(
  database: TestDatabase,
  act: (tx: Transaction<Schema>) => Promise<T>,
): Promise<T> => database.db.transaction().execute(act)
