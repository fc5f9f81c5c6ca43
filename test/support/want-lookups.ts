import { sql } from 'kysely'
import type { Tx } from '../../src/store/transaction.ts'
import {
  type KnownLookups,
  knownLookupsSql,
  type LookupSpec,
  type UpsertedLookup,
  upsertLookups,
} from '../../src/store/upsert-lookups.ts'

/** Upserts lookups of service 0 as a claim does, which reads beforehand what is known of them. */
export async function wantLookups(
  tx: Tx,
  lookups: readonly LookupSpec[],
  source: string,
  run: number,
  runningRuns: readonly number[],
): Promise<UpsertedLookup[]> {
  const { rows } = await sql<{ known: KnownLookups }>`
    select ${knownLookupsSql(lookups, 0)} as known`.execute(tx)
  return upsertLookups(tx, lookups, source, run, runningRuns, 0, rows[0]?.known ?? { all: 0, keyed: 0 })
}
