import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { LookupState } from '../domain/lookup.ts'
import { ANSWERED_STATES, enqueueWriteBackSql, isOrphanedSql } from './lookups.ts'
import { jsonBatch, recordBatch } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

export interface LookupSpec {
  readonly kind: LookupKind
  readonly key: string
  readonly input: object
}

export interface UpsertedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly key: string
  readonly state: LookupState
  /** This run makes the call: the lookup is new, due for a refresh, or was left pending by a dead run. */
  readonly claimed: boolean
}

/** SQL: the lookup `l` has a result that is due for a refresh, or is pending for a run that is no longer running. */
const claimableSql = (runningRuns: readonly number[]) => sql<boolean>`(
  (l.state in (${ANSWERED_STATES}) and l.refresh_at <= now()) or ${isOrphanedSql(runningRuns)})`

/**
 * Creates the lookups of a service that do not exist yet, and claims for `run` and `source` those that need a call. A lookup that a
 * dead run left pending keeps its attempts and the time of its next try.
 * Locks each one until the transaction ends: a result that arrives meanwhile waits, and then sees the new rows.
 */
export async function upsertLookups(
  tx: Tx,
  lookups: readonly LookupSpec[],
  source: string,
  run: number,
  runningRuns: readonly number[],
  service: number,
): Promise<UpsertedLookup[]> {
  if (lookups.length === 0) return []
  // The order of the index, and the same for all: two transactions that insert the same lookups wait for each other in turn.
  const order = sql`v.key collate "C", v.kind collate "C"`
  const { rows } = await sql<UpsertedLookup>`
    with upserted as (
    insert into fillrate.lookups as l (kind, key, service_id, input, state, run_id, source)
    select v.kind, v.key, ${service}, v.input, 'pending', ${run}, ${source}
      from ${recordBatch(lookups, { kind: 'text', key: 'text', input: 'jsonb' })}
     order by ${order}
    ${claimKnownSql(runningRuns)}
    returning l.id, l.kind, l.key, l.state, l.run_id = ${run} and l.enqueued_at = now() as claimed
    ), ${enqueueWriteBackSql('upserted')}
    select id, kind, key, state, claimed from upserted`.execute(tx)
  return rows
}

/** SQL: what becomes of a lookup that exists already: claimed if it needs a call, and only locked otherwise. */
const claimKnownSql = (runningRuns: readonly number[]): RawBuilder<unknown> => sql`
    on conflict (kind, key, service_id) do update
       set (state, job_key, run_id, source, requested_at, enqueued_at, resolved_at, refresh_at,
            sync_only, input, reason, attempts, not_before, unconfirmed_calls) = (
             select case when is_claimed then 'pending' else l.state end,
                    case when is_claimed then null else l.job_key end,
                    case when is_claimed then excluded.run_id else l.run_id end,
                    case when is_claimed then excluded.source else l.source end,
                    case when is_claimed then null else l.requested_at end,
                    case when is_claimed then now() else l.enqueued_at end,
                    case when is_claimed then null else l.resolved_at end,
                    case when is_claimed then null else l.refresh_at end,
                    case when is_claimed then l.sync_only and l.state = 'pending' else l.sync_only end,
                    case when is_claimed then excluded.input else l.input end,
                    case when is_renewed then null else l.reason end,
                    case when is_renewed then 0 else l.attempts end,
                    case when is_renewed then null else l.not_before end,
                    case when is_renewed then 0 else l.unconfirmed_calls end
               from (select is_claimed, is_claimed and l.state <> 'pending' as is_renewed
                       from (select coalesce(${claimableSql(runningRuns)}, false) as is_claimed offset 0) c) c)`

/** Which of these lookups `upsertLookups` would claim for a run, in the same order. Each of them costs a call. */
export async function needCall(
  db: Connection,
  lookups: readonly LookupSpec[],
  runningRuns: readonly number[],
  service: number,
): Promise<boolean[]> {
  if (lookups.length === 0) return []
  const { rows } = await sql<{ costs: boolean }>`
    select l.id is null or coalesce(${claimableSql(runningRuns)}, false) as costs
      from jsonb_to_recordset(${jsonBatch(lookups.map((one, n) => ({ n, kind: one.kind, key: one.key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key and l.service_id = ${service}
     order by w.n`.execute(db)
  return rows.map((row) => row.costs)
}

/** What is stored of a lookup. */
export interface StoredAnswer {
  /** `upsertLookups` would claim it for a run, so that it costs a call. */
  readonly costs: boolean
  /** Null: the service was never called with it. */
  readonly state: LookupState | null
  readonly confidence: number | null
}

/** What a service has answered to these lookups, in the same order. */
export async function readStoredAnswers(
  db: Connection,
  lookups: readonly LookupSpec[],
  runningRuns: readonly number[],
  service: number,
): Promise<StoredAnswer[]> {
  if (lookups.length === 0) return []
  const { rows } = await sql<StoredAnswer>`
    select l.id is null or coalesce(${claimableSql(runningRuns)}, false) as costs, l.state, l.confidence
      from jsonb_to_recordset(${jsonBatch(lookups.map(({ kind, key }, n) => ({ n, kind, key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key and l.service_id = ${service}
     order by w.n`.execute(db)
  return rows
}
