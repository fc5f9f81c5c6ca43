import { type RawBuilder, sql } from 'kysely'
import { ALL_LOOKUP_KINDS, LOOKUP_KINDS, type LookupKind } from '../domain/identifiers/kind.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import type { Connection, Tx } from './transaction.ts'

// Pending lookups, which the index `lookups_pending` has. Only the leader that serves a run takes from them to call.

const DUE = sql<boolean>`(not_before is null or not_before <= now())`

/** Whose lookups: a run requests each service with the lookups that its rows need of it. */
export interface RunService {
  readonly run: number
  readonly service: number
}

/** SQL: the lookup is pending, of a run and service, and of one of these kinds. */
const isPendingSql = ({ run, service }: RunService, kinds: readonly LookupKind[]): RawBuilder<boolean> =>
  sql`is_pending and run_id = ${run} and service_id = ${service} and kind = any(${[...kinds]}::text[])`

/** SQL: whether at least `least` lookups of these kinds, of a run and service, can go in bulk. */
export const hasPendingSql = (
  of: RunService,
  kinds: readonly LookupKind[],
  least: number,
): RawBuilder<boolean> => sql`(
  select count(*) >= ${least}::integer
    from (select from fillrate.lookups
           where ${isPendingSql(of, kinds)} and not sync_only and ${DUE} limit ${least}::integer) due)`

/** What an endpoint of single lookups takes; null: both. */
export const kindsOfEndpoint = (endpoint: SingleEndpoint | null): readonly LookupKind[] =>
  endpoint === null ? ALL_LOOKUP_KINDS : LOOKUP_KINDS[endpoint]

/** Whether any lookup of a run and service, or of one endpoint, can be called now. */
export async function hasPendingLookups(
  db: Connection,
  of: RunService,
  endpoint: SingleEndpoint | null = null,
): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from fillrate.lookups
                    where ${isPendingSql(of, kindsOfEndpoint(endpoint))} and ${DUE}) as any`.execute(db)
  return rows[0]?.any ?? false
}

/** Which pending lookups are claimed. */
export interface PendingClaim extends RunService {
  readonly limit: RawBuilder<number>
  /** Kinds that may go in bulk, and whether to take what may. */
  readonly bulk: readonly { readonly kinds: readonly LookupKind[]; readonly isTaken: RawBuilder<boolean> }[]
  /** Of which kinds to take what can only be requested singly; null: only what may go in bulk. */
  readonly single: readonly LookupKind[] | null
  /** Only those behind this identifier. */
  readonly after?: number
  /** On the lookup `l`. */
  readonly condition?: RawBuilder<boolean>
}

/**
 * SQL: pending lookups of a run and service, by identifier, singly requested ones first (`is_bulk`); locked where
 * they were found (`tid`). A lookup that has changed since the statement began is elsewhere, and is not taken; nor
 * is a locked one. Postgres may lock it there all the same, so its place is compared.
 */
export const claimPendingSql = (claim: PendingClaim): RawBuilder<unknown> => {
  const { run, service, limit, bulk, single, after = 0, condition = sql`true` } = claim
  const bulkKinds = new Set(bulk.flatMap(({ kinds }) => kinds))
  const others = single?.filter((kind) => !bulkKinds.has(kind)) ?? []
  const parts = [
    ...others.map((kind) => sql`(${kind}::text, false, false, true)`),
    ...bulk.flatMap(({ kinds, isTaken }) =>
      kinds.map((kind) => sql`(${kind}::text, true, not ${isTaken}, ${single !== null}::boolean)`),
    ),
  ]
  // Each kind is read in the order of its index, and no further than the limit. A range of `sync_only` keeps that order; with one
  // value it is that of the primary key, and Postgres reads all lookups by that one.
  return sql`
      select w.*
        from (select due.*, part.may_be_bulk and not due.sync_only as is_bulk
                from (values ${sql.join(parts)}) as part (kind, may_be_bulk, least, most)
               cross join lateral (
                 select l.id, l.ctid as tid, l.kind, l.source, l.input, l.sync_only
                   from fillrate.lookups l
                  where l.is_pending and l.run_id = ${run} and l.service_id = ${service} and l.kind = part.kind
                    and l.sync_only >= part.least and l.sync_only <= part.most and l.id > ${after}
                    and ${DUE} and ${condition}
                  order by l.sync_only desc, l.id limit ${limit}) due
               order by is_bulk, id limit ${limit}) w
       cross join lateral (
         select l.ctid from fillrate.lookups l where l.ctid = w.tid for no key update skip locked offset 0) l
       where l.ctid = w.tid`
}

/** SQL: the lookup `l` waits for a call that was never made, and no row of a table has it. */
const isUnneededSql = sql<boolean>`(
  l.state = 'pending' and l.attempts = 0 and l.unconfirmed_calls = 0 and l.record is null
  and not exists (select from fillrate.rows r where r.lookup_id = l.id and r.deleted_at is null))`

/** Deletes the lookups that dry runs have left, which have no rows, unless a row needs them or they were called. */
export async function deleteUnneeded(db: Connection): Promise<void> {
  await sql`
    delete from fillrate.lookups
     where id = any(array(
             select l.id
               from fillrate.runs r
              cross join lateral (
                select l.id from fillrate.lookups l
                 where l.is_pending and l.run_id = r.id and ${isUnneededSql} offset 0) l
              where r.options -> 'dry' = 'true' and r.state <> 'running'))`.execute(db)
}

/** Withdraws those of some lookups that were never requested, and that no row has that its table has. */
export async function withdrawLookups(tx: Tx, ids: readonly (number | null)[]): Promise<void> {
  await sql`
    delete from fillrate.lookups l
     where l.id = any(${[...ids]}::bigint[]) and ${isUnneededSql}`.execute(tx)
}
