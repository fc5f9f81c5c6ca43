import type { Transaction } from 'kysely'
import { coerceRecord } from '../../../src/sources/coerce/record.ts'
import { keysQuery } from '../../../src/sources/page.ts'
import type { Source } from '../../../src/sources/source.ts'
import { writeBatch, type WriteResult, type WriteRow } from '../../../src/sources/write/write.ts'
import type { Schema } from '../../../src/store/schema.ts'
import type { TestDatabase } from '../../support/database.ts'

export interface Writing {
  readonly written?: Record<string, unknown>
  readonly confidence?: number
}

/** Reads rows and coerces a record for them, as the pipeline does before it writes. */
export async function prepare(
  database: TestDatabase,
  source: Source,
  keys: readonly string[],
  record: unknown,
  { written, confidence = 0.9 }: Writing = {},
): Promise<WriteRow[]> {
  const { rows } = await keysQuery(source, keys).execute(database.db)
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

export const transact = <T>(
  database: TestDatabase,
  act: (tx: Transaction<Schema>) => Promise<T>,
): Promise<T> => database.db.transaction().execute(act)
