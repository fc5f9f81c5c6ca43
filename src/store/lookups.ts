import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Lookup, type LookupState } from '../domain/lookup.ts'
import { jsonBatch, unindexed } from './batch.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

/** The states of an answered lookup, for `in (…)`. */
export const ANSWERED = sql.raw(
  [Lookup.found, Lookup.notFound, Lookup.refused, Lookup.failed].map((state) => `'${state}'`).join(', '),
)
const pending = sql.lit(Lookup.pending)
const leased = sql.lit(Lookup.leased)
const submitted = sql.lit(Lookup.submitted)

export interface Wanted {
  readonly kind: LookupKind
  readonly key: string
  readonly input: object
}

export interface WantedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly key: string
  readonly state: LookupState
  /** It is this run's to ask: new, due again, or left behind by a run that is no more. */
  readonly admitted: boolean
}

/** Final and due again, or waiting for a run that is no more. `l` is the lookup. */
const takeable = (live: readonly number[]) => sql<boolean>`(
  (l.state in (${ANSWERED}) and l.due_at <= now())
  or (l.state = ${pending} and (l.run is null or l.run <> all(${[...live]}::bigint[])))
)`

/**
 * Makes sure that every wanted lookup exists, and takes for `run` those that must be asked.
 * Holds a lock on each until the transaction ends: an answer that comes meanwhile waits, and then sees the new rows.
 */
export async function want(
  tx: StoreTransaction,
  wanted: readonly Wanted[],
  run: number,
  live: readonly number[],
): Promise<WantedLookup[]> {
  if (wanted.length === 0) return []
  const { rows } = await sql<WantedLookup>`
    with wanted as (
    insert into fillrate.lookups as l (kind, key, input, state, run)
    select w.kind, w.key, w.input, ${pending}, ${run}
      from jsonb_to_recordset(${jsonBatch(wanted)}) as w (kind text, key text, input jsonb)
     order by w.kind, w.key
    on conflict (kind, key) do update set
      state       = case when ${takeable(live)} then ${pending} else l.state end,
      run         = case when ${takeable(live)} then excluded.run else l.run end,
      reason      = case when ${takeable(live)} then null else l.reason end,
      attempts    = case when ${takeable(live)} then 0 else l.attempts end,
      not_before  = case when ${takeable(live)} then null else l.not_before end,
      single      = case when ${takeable(live)} then l.single and l.state = ${pending} else l.single end,
      in_doubt    = case when ${takeable(live)} and l.state <> ${pending} then 0 else l.in_doubt end,
      asked_at    = case when ${takeable(live)} then null else l.asked_at end,
      wanted_at   = case when ${takeable(live)} then now() else l.wanted_at end,
      resolved_at = case when ${takeable(live)} then null else l.resolved_at end,
      due_at      = case when ${takeable(live)} then null else l.due_at end
    returning l.id, l.kind, l.key, l.state, l.run = ${run} and l.wanted_at = now() as admitted
    ), answered as (
      insert into fillrate.unwritten (lookup) select id from wanted where state in (${ANSWERED})
      on conflict do nothing
    )
    select * from wanted`.execute(tx)
  return rows
}

/** Which of the wanted lookups `want` would take for a run: those that would cost. */
export async function wouldCost(
  db: Connection,
  wanted: readonly Wanted[],
  live: readonly number[],
): Promise<boolean[]> {
  if (wanted.length === 0) return []
  const { rows } = await sql<{ costs: boolean }>`
    select l.id is null or coalesce(${takeable(live)}, false) as costs
      from jsonb_to_recordset(${jsonBatch(wanted.map((one, n) => ({ n, kind: one.kind, key: one.key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key
     order by w.n`.execute(db)
  return rows.map((row) => row.costs)
}

/** Members of these jobs that still wait for a result are asked again, singly, once. @returns how many */
export function askSingly(tx: Connection, jobs: readonly string[], reason: string): Promise<number> {
  return freeMembers(tx, jobs, reason, true)
}

/** Members of these jobs, which the service never took, are asked again in whatever way. @returns how many */
export function askAgain(tx: Connection, jobs: readonly string[], reason: string): Promise<number> {
  return freeMembers(tx, jobs, reason, false)
}

async function freeMembers(
  tx: Connection,
  jobs: readonly string[],
  reason: string,
  single: boolean,
): Promise<number> {
  if (jobs.length === 0) return 0
  const result = await sql`
    update fillrate.lookups
       set state = ${pending}, single = single or ${single}, reason = ${reason}, not_before = null
     where state = ${submitted} and job = any(${[...jobs]}::uuid[])`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

/** The only try of these so far met an outage of the service, and is not held against them. */
export async function forgive(db: Connection, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    update fillrate.lookups set attempts = 0
     where id = any(${[...ids]}::bigint[]) and ${unindexed(sql`state = ${pending}`)} and attempts = 1`.execute(
    db,
  )
}

export interface Expired {
  /** Their calls may have been answered and paid for, which is counted. */
  readonly inDoubt: number
  /** Leased, and certainly never asked. */
  readonly unasked: number
}

/** Lookups whose leases ran out wait again. */
export async function returnExpired(db: Connection, limit: number): Promise<Expired> {
  const { rows } = await sql<Expired>`
    with expired as (
      select id, lease_token as token from fillrate.lookups where state = ${leased} and leased_until < now()
       order by leased_until limit ${limit} for no key update skip locked
    ), asked as materialized (
      select e.id, min(a.at) as at from expired e left join fillrate.asking a on a.token = e.token and a.up_to >= e.id
       group by e.id
    ), returned as (
      update fillrate.lookups l
         set state = ${pending}, lease_token = null, leased_until = null,
             in_doubt = l.in_doubt + (asked.at is not null)::integer,
             attempts = l.attempts + (asked.at is not null)::integer,
             asked_at = coalesce(asked.at, l.asked_at),
             reason = case when asked.at is null then l.reason else 'the process that asked it is gone' end
        from asked where l.id = asked.id
      returning asked.at
    )
    select count(at) as "inDoubt", count(*) - count(at) as unasked from returned`.execute(db)
  return rows[0] ?? { inDoubt: 0, unasked: 0 }
}

/** How far tokens had come under which nothing is leased any more. A minute later, so that few are looked at in vain. */
export async function forgetTokens(db: Connection): Promise<void> {
  await sql`
    delete from fillrate.asking a
     where a.at < now() - interval '1 minute'
       and not exists (select from fillrate.lookups where state = ${leased} and ${unindexed(sql`lease_token = a.token`)})`.execute(
    db,
  )
}

/** Takes over what other runs left waiting and this run's rows want. @returns how many */
export async function adopt(
  db: Connection,
  run: number,
  live: readonly number[],
  limit: number,
): Promise<number> {
  const result = await sql`
    with orphan as (
      select distinct l.id from fillrate.rows r join fillrate.lookups l on l.id = r.lookup
       where r.run = ${run} and r.state = 'waiting' and l.state = ${pending}
         and (l.run is null or l.run <> all(${[...live]}::bigint[]))
       limit ${limit}
    )
    update fillrate.lookups l set run = ${run}, wanted_at = now(), asked_at = null
      from orphan where l.id = orphan.id and l.state = ${pending}`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}
