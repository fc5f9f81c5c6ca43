import { sql } from 'kysely'
import type { Tx } from '../../src/store/transaction.ts'

/** How many rows of our tables, or of one, this connection has read since its last report to the server's statistics. */
export async function tuplesReadSoFar(tx: Tx, table: string | null = null): Promise<number> {
  const { rows: reported } = await sql<{ reads: number }>`
    select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as reads
      from pg_stat_xact_user_tables where schemaname = 'fillrate' and relname = coalesce(${table}, relname)`.execute(
    tx,
  )
  return reported[0]?.reads ?? 0
}
