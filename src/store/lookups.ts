import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Lookup, type LookupFields, type LookupState } from '../domain/lookup.ts'
import { interval, jsonBatch, unindexed } from './batch.ts'
import { Row } from '../domain/row.ts'
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
      due_at      = case when ${takeable(live)} then null else l.due_at end,
      to_write    = not ${takeable(live)} and l.state in (${ANSWERED})
    returning l.id, l.kind, l.key, l.state, l.run = ${run} and l.wanted_at = now() as admitted`.execute(tx)
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

export interface LeasedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly input: Record<string, string>
  readonly attempts: number
  readonly token: string
}

/**
 * Leases up to `limit` of a run's waiting lookups, oldest first.
 * @param from `single`: those that never go in bulk. `emails`: those that may.
 * @param unlessWaiting with `emails`: none when at least so many of them wait (they make a job)
 */
export async function lease(
  db: Connection,
  options: {
    readonly run: number
    readonly from: 'single' | 'emails'
    readonly limit: number
    readonly token: string
    readonly leaseMs: number
    readonly unlessWaiting?: number | undefined
  },
): Promise<LeasedLookup[]> {
  const { run, from, limit, token, leaseMs, unlessWaiting } = options
  // Literally the predicates of the partial indexes: the planner uses them for nothing else.
  const predicate =
    from === 'single'
      ? sql`state = ${pending} and (kind <> 'email' or single)`
      : sql`state = ${pending} and kind = 'email' and not single`
  const ready = sql`run = ${run} and ${predicate} and (not_before is null or not_before <= now())`
  const tooFew =
    unlessWaiting === undefined
      ? sql`true`
      : sql`(select count(*) from (select 1 from fillrate.lookups where ${ready} limit ${unlessWaiting}::integer) w) < ${unlessWaiting}::integer`
  const { rows } = await sql<LeasedLookup>`
    with claimed as (
      select id from fillrate.lookups
       where ${ready} and ${tooFew}
       order by run, id limit ${limit} for no key update skip locked
    )
    update fillrate.lookups l
       set state = ${leased}, lease_token = ${token}, leased_until = now() + ${interval(leaseMs)}, asked_at = now()
      from claimed where l.id = claimed.id
    returning l.id, l.kind, l.input, l.attempts, l.lease_token as token`.execute(db)
  return rows
}

/** Extends every lease under these tokens. @returns the tokens that still hold one */
export async function extendLeases(
  db: Connection,
  tokens: readonly string[],
  leaseMs: number,
): Promise<Set<string>> {
  if (tokens.length === 0) return new Set()
  const { rows } = await sql<{ token: string }>`
    update fillrate.lookups set leased_until = now() + ${interval(leaseMs)}
     where state = ${leased} and lease_token = any(${[...tokens]}::uuid[])
    returning lease_token as token`.execute(db)
  return new Set(rows.map((row) => row.token))
}

export interface Answer extends LookupFields {
  readonly id: number
  readonly token: string
  /** Of whom the record tells, as tombstones would: it is not kept where one of them is there. */
  readonly hashes?: readonly string[]
}

/**
 * Stores the answers of leased lookups. Where the lease was lost meanwhile, a record is still kept if none is there,
 * and never put over a newer one.
 * @returns those whose lease was lost, or whose record tells of somebody who was erased
 */
export async function answer(db: Connection, answers: readonly Answer[]): Promise<readonly Answer[]> {
  if (answers.length === 0) return []
  const { rows } = await sql<{ id: number }>`
    update fillrate.lookups l
       set state = v.state, reason = v.reason, attempts = v.attempts, not_before = v."notBefore",
           resolved_at = v."resolvedAt", due_at = v."dueAt", lease_token = null, leased_until = null,
           record = case when v.state = 'found' then v.record else l.record end,
           confidence = case when v.state = 'found' then v.confidence else l.confidence end,
           to_write = v.state in (${ANSWERED})
      from ${answerRecords(answers)}
     where ${isOneOf(answers)} and ${unindexed(sql`l.state = ${leased}`)} and l.lease_token = v.token
       and ${notErased}
    returning l.id`.execute(db)
  if (rows.length === answers.length) return []
  const stored = new Set(rows.map((row) => row.id))
  const unstored = answers.filter((one) => !stored.has(one.id))
  await keepPaidRecords(
    db,
    unstored.filter((one) => one.state === Lookup.found),
  )
  return unstored
}

const notErased = sql`not exists (
  select from fillrate.suppressions s where s.hash in (select jsonb_array_elements_text(v.hashes)))`

/**
 * A paid record that comes when nobody waits for it any more, its lease lost or its job given up: it answers a lookup of
 * which nothing is known, also one that somebody else was told has no match. Rows that were settled without it are due.
 */
async function keepPaidRecords(
  db: Connection,
  answers: readonly (LookupFields & { readonly id: number; readonly hashes?: readonly string[] })[],
): Promise<void> {
  if (answers.length === 0) return
  await sql`
    with kept as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", due_at = v."dueAt", not_before = null,
             lease_token = null, leased_until = null, record = v.record, confidence = v.confidence, to_write = true
        from ${answerRecords(answers)}
       where ${isOneOf(answers)} and ${unindexed(sql`l.record is null`)} and ${notErased}
      returning l.id
    )
    update fillrate.rows r set next_at = now() from kept
     where r.lookup = kept.id and r.state in (${sql.lit(Row.notFound)}, ${sql.lit(Row.refused)}, ${sql.lit(Row.failed)})`.execute(
    db,
  )
}

/** The planner knows how many these are, and takes the primary key; of `v` it only guesses that it has 100 rows. */
const isOneOf = (answers: readonly { readonly id: number }[]) =>
  sql`l.id = any(${answers.map((one) => one.id)}::bigint[]) and l.id = v.id`

const answerRecords = (answers: readonly object[]) => sql`jsonb_to_recordset(${jsonBatch(answers)}) as v (
  id bigint, token uuid, job uuid, state text, reason text, attempts integer, "notBefore" timestamptz,
  "resolvedAt" timestamptz, "dueAt" timestamptz, record jsonb, confidence double precision, hashes jsonb)`

export interface ResultAnswer extends LookupFields {
  readonly id: number
  readonly job: string
}

/** Stores what deliveries answered. A lookup that has an answer already keeps it. @returns how many were stored */
export async function answerFromResults(
  tx: StoreTransaction,
  answers: readonly ResultAnswer[],
): Promise<number> {
  if (answers.length === 0) return 0
  const { rows } = await sql<{ id: number }>`
    update fillrate.lookups l
       set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", due_at = v."dueAt", not_before = null,
           lease_token = null, leased_until = null,
           record = case when v.state = 'found' then v.record else l.record end,
           confidence = case when v.state = 'found' then v.confidence else l.confidence end,
           to_write = true
      from ${answerRecords(answers)}
     where ${isOneOf(answers)} and ${unindexed(sql`l.state in (${submitted}, ${pending}, ${leased})`)}
    returning l.id`.execute(tx)
  const stored = new Set(rows.map((row) => row.id))
  await keepPaidRecords(
    tx,
    answers.filter((one) => one.state === Lookup.found && !stored.has(one.id)),
  )
  return rows.length
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

/** Leases that ran out: their calls may have been answered and paid for, which is counted. @returns how many */
export async function returnExpired(db: Connection, limit: number): Promise<number> {
  const result = await sql`
    with expired as (
      select id from fillrate.lookups where state = ${leased} and leased_until < now()
       order by leased_until limit ${limit} for no key update skip locked
    )
    update fillrate.lookups l
       set state = ${pending}, lease_token = null, leased_until = null, in_doubt = l.in_doubt + 1,
           attempts = l.attempts + 1, reason = 'the process that asked it is gone'
      from expired where l.id = expired.id`.execute(db)
  return Number(result.numAffectedRows ?? 0)
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
