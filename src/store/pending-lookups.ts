import { type RawBuilder, sql } from 'kysely'
import { ALL_LOOKUP_KINDS, LOOKUP_KINDS, type LookupKind } from '../domain/identifiers/kind.ts'
import { JOB_SIZE } from '../domain/job.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import { opaque } from './sql.ts'
import type { Connection } from './transaction.ts'

// The queue `pending_lookups`. Only the leader that serves a run takes from it to call; a second one waits for the first one's
// statement, and then finds what that has left.

/** Columns that a statement has to return for `enqueuePendingSql`. */
export const QUEUED_COLUMNS = sql.raw(
  'l.id, l.state, l.run_id, l.service_id, l.kind, l.sync_only, l.not_before, l.source',
)

/**
 * SQL: appends those of `lookups` that are pending to the queue of their run and service. Entries of a run that
 * is gone are pruned: its lookups are adopted by the rows that need them.
 * @param lookups a relation of `QUEUED_COLUMNS`
 */
export const enqueuePendingSql = (
  lookups: string,
  condition = sql`true`,
): RawBuilder<unknown> => sql`pended as (
      insert into fillrate.pending_lookups (run_id, service_id, kind, sync_only, not_before, source, size, lookup_ids)
      select run_id, service_id, kind, sync_only, not_before, source, count(*), array_agg(id order by id)
        from (select id, run_id, service_id, kind, sync_only, not_before, source,
                     (row_number() over (partition by run_id, service_id, kind, sync_only, not_before, source order by id) - 1) / ${JOB_SIZE}::integer as part
                from ${sql.ref(lookups)} where state = 'pending' and run_id is not null and ${condition}) parts
       group by run_id, service_id, kind, sync_only, not_before, source, part order by min(id)
    )`

const DUE = sql<boolean>`(not_before is null or not_before <= now())`

const toKinds = (kinds: readonly LookupKind[]): RawBuilder<unknown> => sql`${[...kinds]}::text[]`

/** Whose lookups: a run requests each service with the lookups that its rows need of it. */
export interface RunService {
  readonly run: number
  readonly service: number
}

/** SQL: the entry is of a run and service. */
const ofRunSql = ({ run, service }: RunService): RawBuilder<boolean> =>
  sql`run_id = ${run} and service_id = ${service}`

/** SQL: whether at least `least` lookups of these kinds, of a run and service, can go in bulk. Reads entries, and no lookup. */
export const hasPendingSql = (
  of: RunService,
  kinds: readonly LookupKind[],
  least: number,
): RawBuilder<boolean> => sql`(
  select coalesce(sum(size), 0) >= ${least}::integer
    from (select size from fillrate.pending_lookups
           where ${ofRunSql(of)} and kind = any(${toKinds(kinds)}) and not sync_only and ${DUE} limit ${least}::integer) due)`

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
    select exists (select from fillrate.pending_lookups
                    where ${ofRunSql(of)} and kind = any(${toKinds(kindsOfEndpoint(endpoint))}) and ${DUE}) as any`.execute(
    db,
  )
  return rows[0]?.any ?? false
}

/**
 * SQL: the CTE `open (entry, is_bulk, id, tid, is_ready, …)`, the pending lookups that the oldest entries of a run and service list; those that
 * can only be requested singly come first. `tid` is where each is, for an update. Locks the entries, and needs `dequeuePendingSql`
 * in the same statement.
 * @param limit takes no more entries than list as many lookups
 * @param options.columns those of the lookup `l` that `open` has too
 * @param options.bulk kinds that may go in bulk, and whether to take what may
 * @param options.single of which kinds to take what can only be requested singly; null: only what may go in bulk
 * @param options.condition on the lookup `l`
 * @param options.isPaid a budget pays lookups of the entry
 */
export const openPendingSql = (
  of: RunService,
  limit: number,
  options: {
    readonly columns?: RawBuilder<unknown>
    readonly bulk: readonly { readonly kinds: readonly LookupKind[]; readonly isTaken: RawBuilder<boolean> }[]
    readonly single: readonly LookupKind[] | null
    readonly condition?: RawBuilder<boolean>
    /** On the entry `p`. */
    readonly isPaid?: RawBuilder<boolean>
  },
): RawBuilder<unknown> => {
  const { columns, bulk, single, condition = sql<boolean>`true`, isPaid = sql<boolean>`true` } = options
  const bulkKinds = bulk.flatMap(({ kinds }) => kinds)
  const others = single?.filter((kind) => !bulkKinds.includes(kind)) ?? []
  const parts = [
    ...others.map((kind) => sql`(${kind}::text, false, false, true)`),
    ...bulk.flatMap(({ kinds, isTaken }) =>
      kinds.map((kind) => sql`(${kind}::text, true, not ${isTaken}, ${single !== null}::boolean)`),
    ),
  ]
  // Behind a million lookups, statistics know nothing of a new run: it would seem to have none, and joins with them to cost nothing.
  const isPending = opaque(sql`l.state = 'pending' and l.run_id = ${of.run}`)
  // There may be a million entries: each kind is read in the order of its index, and no further than the limit. A range of
  // `sync_only` keeps that order; with one value it is that of the primary key, and Postgres reads all entries by that one.
  // Each entry is read whole, and lists one lookup at least. One scan of the primary key finds the lookups of an entry.
  return sql`sized as (
      select id, sum(size) over (order by is_bulk, id) - size as before
        from (select due.id, part.may_be_bulk and not due.sync_only as is_bulk, due.size
                from (values ${sql.join(parts)}) as part (kind, may_be_bulk, least, most)
               cross join lateral (
                 select p.id, p.sync_only, p.size from fillrate.pending_lookups p
                  where p.run_id = ${of.run} and p.service_id = ${of.service} and p.kind = part.kind and p.sync_only >= part.least and p.sync_only <= part.most and ${DUE} and ${isPaid}
                  order by p.sync_only desc, p.id limit ${limit}::integer) due
               order by is_bulk, id limit ${limit}::integer) due
    ), entry as materialized (
      select id, not sync_only and kind = any(${toKinds(bulkKinds)}) as is_bulk, lookup_ids from fillrate.pending_lookups
       where id = any(array(select id from sized where before < ${limit}::integer)) order by is_bulk, id for update
    ), open as materialized (
      select entry.id as entry, entry.is_bulk, l.*
        from entry
       cross join lateral (
         select l.id, l.ctid as tid, (l.not_before is null or l.not_before <= now()) and ${condition} as is_ready
                ${columns === undefined ? sql`` : sql`, ${columns}`}
           from fillrate.lookups l where l.id = any(entry.lookup_ids) and ${isPending} offset 0) l
    )`
}

/**
 * SQL: locked lookups of `open`, in the order of its entries, where they were found. One that has changed since the statement
 * began is elsewhere: it is not taken and stays listed, like one that another transaction has locked. Postgres may lock it
 * there all the same, so that its place is compared. One that two entries list is taken once.
 */
export const claimPendingSql = (limit: RawBuilder<number>): RawBuilder<unknown> => sql`
      select w.*
        from (select * from (select distinct on (id) * from open where is_ready order by id, entry) once
               order by is_bulk, entry, id limit ${limit}) w
       cross join lateral (
         select l.ctid from fillrate.lookups l where l.ctid = w.tid for no key update skip locked offset 0) l
       where l.ctid = w.tid`

/** SQL: the CTEs that remove what was taken from the entries that `openPendingSql` has read. @param taken a relation of `id` */
export const dequeuePendingSql = (taken: string): RawBuilder<unknown> => sql`remaining as (
      select entry as id, array_agg(id order by id) as lookup_ids from open
       where id not in (select id from ${sql.ref(taken)}) group by entry
    ), emptied as (
      delete from fillrate.pending_lookups p using entry
       where p.id = entry.id and not exists (select from remaining where remaining.id = entry.id)
    ), narrowed as (
      update fillrate.pending_lookups p set lookup_ids = remaining.lookup_ids, size = cardinality(remaining.lookup_ids)
        from remaining join entry using (id)
       where p.id = remaining.id and cardinality(remaining.lookup_ids) < cardinality(entry.lookup_ids)
    )`

/** SQL: the lookup `l` waits for a call that was never made, and no row of a table has it. */
export const isUnneededSql = sql<boolean>`(
  l.state = 'pending' and l.attempts = 0 and l.unconfirmed_calls = 0 and l.record is null
  and not exists (select from fillrate.rows r where r.lookup_id = l.id and r.deleted_at is null))`

/**
 * Removes the queues of runs that are over. Their lookups are adopted by the rows that need them; those of a dry run, which has no
 * rows, are deleted unless a row needs them or they were called.
 */
export async function prunePending(db: Connection): Promise<void> {
  await sql`
    with pruned as (
      delete from fillrate.pending_lookups p
       where not exists (select from fillrate.runs r where r.id = p.run_id and r.state = 'running')
      returning p.run_id, p.lookup_ids
    ), left_behind as (
      select q.id, d.id as run_id
        from pruned join fillrate.runs d on d.id = pruned.run_id and d.options -> 'dry' = 'true'
       cross join lateral unnest(pruned.lookup_ids) as q (id)
    )
    delete from fillrate.lookups l using left_behind
     where l.id = left_behind.id and l.run_id = left_behind.run_id and ${isUnneededSql}`.execute(db)
}
