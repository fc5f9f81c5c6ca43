import type { Tx } from '../../src/store/transaction.ts'
import {
  areAnyKnownSql,
  type LookupSpec,
  type UpsertedLookup,
  upsertLookups,
} from '../../src/store/upsert-lookups.ts'
import { isTrue } from '../../src/store/sql.ts'

/** Upserts lookups of service 0 as a claim does, which reads beforehand whether any of them is known. */
export async function wantLookups(
  tx: Tx,
  lookups: readonly LookupSpec[],
  source: string,
  run: number,
  runningRuns: readonly number[],
): Promise<UpsertedLookup[]> {
  const areAnyKnown = await isTrue(tx, areAnyKnownSql(lookups, 0))
  return upsertLookups(tx, lookups, source, run, runningRuns, 0, areAnyKnown)
}
