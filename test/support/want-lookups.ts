import type { Tx } from '../../src/store/transaction.ts'
import { type LookupSpec, type UpsertedLookup, upsertLookups } from '../../src/store/lookups.ts'

/** Upserts lookups of service 0. */
export const wantLookups = (
  tx: Tx,
  lookups: readonly LookupSpec[],
  source: string,
  run: number,
  runningRuns: readonly number[],
): Promise<UpsertedLookup[]> => upsertLookups(tx, lookups, source, run, runningRuns, 0)
