import { sql } from 'kysely'
import { jsonBatch } from './batch.ts'
import type { StoreTransaction } from './transaction.ts'

export interface NewChange {
  readonly run: number | null
  readonly key: string
  readonly lookup: number | null
  readonly before: Record<string, unknown>
  readonly after: Record<string, unknown>
}

/** Keeps what was written, in the transaction that wrote it. */
export async function insert(
  tx: StoreTransaction,
  source: string,
  changes: readonly NewChange[],
): Promise<void> {
  if (changes.length === 0) return
  await sql`
    insert into fillrate.changes (run, source, key, lookup, before, after)
    select v.run, ${source}, v.key, v.lookup, v.before, v.after
      from jsonb_to_recordset(${jsonBatch(changes)}) as v
           (run bigint, key text, lookup bigint, before jsonb, after jsonb)`.execute(tx)
}
