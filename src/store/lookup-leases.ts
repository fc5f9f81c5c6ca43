import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { type CallCost, Lookup, type LookupFields } from '../domain/lookup.ts'
import { creditedSql, notSuppressedSql, RESULT_COLUMNS, storeLateRecords } from './complete-lookups.ts'
import { enqueueWriteBackSql } from './lookups.ts'
import type { Database } from './open.ts'
import {
  claimPendingSql,
  dequeuePendingSql,
  enqueuePendingSql,
  hasPendingEmailsSql,
  openPendingSql,
  QUEUED_COLUMNS,
} from './pending-lookups.ts'
import { countCallsSql, countCreditsSql } from './spend.ts'
import { columnArrays, compileOnce, intervalSql, opaque, PREPARED, unnestColumns } from './sql.ts'
import { postgresArray } from '../util/postgres-array.ts'

export interface LeasedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly input: Record<string, string>
  readonly attempts: number
  readonly token: string
}

export interface LeaseOptions {
  readonly run: number
  readonly limit: number
  readonly token: string
  readonly leaseMs: number
  /** How many of them, from the first, are called as soon as this commits. Default: all. */
  readonly startImmediately?: number
  /**
   * Whether to lease emails too, after the lookups that never go in bulk. A number: only while fewer emails than this
   * are pending, because that many make a job.
   */
  readonly emails: boolean | number
  /** Only lookups of people or only of companies, if each has a limit of its own. Default: both. */
  readonly endpoint?: 'person' | 'company' | null
  /** Only lookups without a failed call: the others prove little about a service that is being probed. */
  readonly untried?: boolean
}

/**
 * Leases pending lookups of a run, oldest first; those that can only go as synchronous calls come before emails.
 * @returns in the order in which to call
 */
export async function leaseLookups(
  db: Database,
  {
    run,
    limit,
    token,
    leaseMs,
    emails,
    startImmediately = limit,
    endpoint = null,
    untried = false,
  }: LeaseOptions,
): Promise<LeasedLookup[]> {
  const areEmailsTaken =
    typeof emails === 'number'
      ? sql<boolean>`not ${hasPendingEmailsSql(run, emails)}`
      : sql<boolean>`${emails}::boolean`
  const { rows } = await sql<Omit<LeasedLookup, 'token'>>`${PREPARED}
    with ${openPendingSql(run, limit, {
      emails: areEmailsTaken,
      others: true,
      endpoint,
      condition: untried ? sql`l.reason is null` : sql`true`,
    })}, claimed as (${claimPendingSql(sql`${limit}::integer`)}), ${dequeuePendingSql('claimed')}, leased as (
      update fillrate.lookups l
         set state = 'leased', lease_token = ${token}, leased_until = now() + ${intervalSql(leaseMs)}
        from claimed where l.ctid = claimed.tid
      returning l.id, l.kind, l.input, l.attempts
    ), listed as (
      insert into fillrate.lookup_leases (lease_token, lookup_ids)
      select ${token}, array_agg(id) from leased having count(*) > 0
    ), marked as (
      insert into fillrate.in_flight_marks (lease_token, through_lookup_id)
      select ${token}, id from (select id from leased order by id limit ${startImmediately}::integer) a order by id desc limit 1
    )
    select * from leased order by id`.execute(db)
  return rows.map((row) => ({ ...row, token }))
}

/** How many lookups are leased under a token, and how many of these leases were extended. */
export interface ExtendedLeases {
  readonly leased: number
  readonly extended: number
}

/**
 * Extends the leases under these tokens. Skips a lookup that another statement has locked: its result is most likely
 * being stored, and waiting for it while holding other locks leads to deadlocks.
 * @returns by token; a token without any lease is missing
 */
export async function extendLookupLeases(
  db: Database,
  tokens: readonly string[],
  leaseMs: number,
): Promise<Map<string, ExtendedLeases>> {
  if (tokens.length === 0) return new Map()
  const leasedSql = sql`fillrate.lookup_leases h cross join lateral unnest(h.lookup_ids) as q (id)`
  const isHeld = sql`id = q.id and state = 'leased' and lease_token = h.lease_token`
  const ofTokens = sql`h.lease_token = any(${[...tokens]}::uuid[])`
  const { rows } = await sql<ExtendedLeases & { token: string }>`
    with mine as materialized (
      select q.id, h.lease_token as token from ${leasedSql}
       cross join lateral (select from fillrate.lookups where ${isHeld} offset 0) l where ${ofTokens}
    ), held as materialized (
      select q.id from ${leasedSql}
       cross join lateral (select from fillrate.lookups where ${isHeld} for no key update skip locked offset 0) l where ${ofTokens}
    ), extended as (
      update fillrate.lookups l set leased_until = now() + ${intervalSql(leaseMs)}
        from held where l.id = held.id
      returning l.id
    )
    select token, count(*) as leased, count(extended.id) as extended
      from mine left join extended using (id) group by token`.execute(db)
  return new Map(rows.map(({ token, ...counts }) => [token, counts]))
}

/** What a statement that marks lookups in flight is sent with. */
interface MarkValues {
  readonly markTokens: Buffer
  readonly markIds: Buffer
  readonly nextIds: Buffer
}

/** SQL fragments: mark lookups in flight, and select those whose lease we still hold. */
const inFlightSql = (
  value: (name: keyof MarkValues) => RawBuilder<unknown>,
): { readonly marked: RawBuilder<unknown>; readonly held: RawBuilder<unknown> } => ({
  marked: sql`marked as (
      insert into fillrate.in_flight_marks (lease_token, through_lookup_id)
      select * from unnest(${value('markTokens')}::uuid[], ${value('markIds')}::bigint[])
    )`,
  held: sql`(select jsonb_object_agg(id, lease_token) from fillrate.lookups
                where id = any(${value('nextIds')}::bigint[]) and ${opaque(sql`leased_until > now()`)})`,
})

function toMarkValues(lookups: readonly LeasedLookup[]): MarkValues {
  const throughId = new Map<string, number>()
  for (const { id, token } of lookups) throughId.set(token, Math.max(id, throughId.get(token) ?? 0))
  return {
    markTokens: postgresArray('uuid', [...throughId.keys()]),
    markIds: postgresArray('bigint', [...throughId.values()]),
    nextIds: postgresArray(
      'bigint',
      lookups.map(({ id }) => id),
    ),
  }
}

const markStatement = compileOnce<MarkValues, { held: LeaseHolders }>((value) => {
  const { marked, held } = inFlightSql(value)
  return sql`${PREPARED} with ${marked} select ${held} as held`
})

/**
 * Marks leased lookups in flight, before they are called, lowest ids first. If the process is killed, only marked
 * lookups are in doubt.
 * @returns those that may be called; without those that were erased meanwhile or leased by another process
 */
export async function markInFlight(
  db: Database,
  lookups: readonly LeasedLookup[],
): Promise<readonly LeasedLookup[]> {
  if (lookups.length === 0) return []
  const { rows } = await markStatement(db, toMarkValues(lookups))
  return stillHeld(lookups, rows[0]?.held)
}

/** The token that holds the lease, by lookup id. */
type LeaseHolders = Readonly<Record<string, string>> | null

const stillHeld = (lookups: readonly LeasedLookup[], holders: LeaseHolders | undefined): LeasedLookup[] =>
  lookups.filter(({ id, token }) => holders?.[id] === token)

export interface LookupResult extends LookupFields {
  readonly id: number
  readonly token: string
  readonly requestedAt: Date
  /** Missing: nothing was sent. */
  readonly call?: CallCost | undefined
  /** What the call cost, where a lookup does not cost one credit. */
  readonly credits?: number | undefined
  /** Suppression hashes of all that the record names: it is not stored if one of them is suppressed. */
  readonly hashes?: readonly string[]
  /** Those of them that are of its subject. */
  readonly subjectHashes?: readonly string[]
}

export interface CompleteResult {
  /** Those of `next` that may be called, as `markInFlight` returns them. */
  readonly started: readonly LeasedLookup[]
  /** Results whose lease was lost, or whose subject was erased. */
  readonly unstored: readonly LookupResult[]
}

type CompleteValues = Record<keyof typeof RESULT_COLUMNS, Buffer> & Partial<MarkValues>

const completeStatement = (hasCredits: boolean, hasNext: boolean) =>
  compileOnce<CompleteValues, { stored: number[] | null; held: LeaseHolders }>((value) => {
    const { marked, held } = hasNext ? inFlightSql(value) : { marked: null, held: sql`null` }
    return sql`${PREPARED}
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, attempts = v.attempts, not_before = v."notBefore",
             requested_at = case when v.call is null then l.requested_at else v."requestedAt" end, resolved_at = v."resolvedAt", refresh_at = v."refreshAt",
             lease_token = null, leased_until = null, unconfirmed_calls = l.unconfirmed_calls + coalesce(v."unconfirmedCalls", 0),
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${unnestColumns(RESULT_COLUMNS, value)}
       where l.id = v.id and ${opaque(sql`l.state = 'leased' and l.lease_token = v.token`)}
         and ${notSuppressedSql}
      returning ${QUEUED_COLUMNS}, l.source, v.call, coalesce(v."unconfirmedCalls", 0) as doubt
                ${hasCredits ? sql`, ${creditedSql}, coalesce(v."unconfirmedCalls", 0) * coalesce(l.credits_reserved, 1) as credits_in_doubt` : sql``}
    ), ${hasCredits ? countCreditsSql : countCallsSql}, ${enqueueWriteBackSql('stored')}, ${enqueuePendingSql('stored')} ${marked === null ? sql`` : sql`, ${marked}`}
    select (select jsonb_agg(id) from stored) as stored, ${held} as held`
  })

const completeFlat = { alone: completeStatement(false, false), withNext: completeStatement(false, true) }
const completeCredits = { alone: completeStatement(true, false), withNext: completeStatement(true, true) }

/**
 * Stores the results of leased lookups and marks the next ones in flight in the same statement: a slot is idle for one
 * round trip and one commit instead of two. If the lease was lost, a record is still stored where there is none, and
 * never replaces a newer one.
 * @param next leased lookups to call when this has committed
 */
export async function completeLookups(
  db: Database,
  results: readonly LookupResult[],
  next: readonly LeasedLookup[] = [],
): Promise<CompleteResult> {
  if (results.length === 0) return { started: await markInFlight(db, next), unstored: [] }
  const hasCredits = results.some(({ credits }) => credits !== undefined)
  const statements = hasCredits ? completeCredits : completeFlat
  const columns = columnArrays(results, RESULT_COLUMNS)
  const { rows } = await (next.length === 0
    ? statements.alone(db, columns)
    : statements.withNext(db, { ...columns, ...toMarkValues(next) }))
  const stored = new Set(rows[0]?.stored)
  const unstored = results.filter((one) => !stored.has(one.id))
  await storeLateRecords(
    db,
    unstored.filter((one) => one.state === Lookup.found),
  )
  return { started: stillHeld(next, rows[0]?.held), unstored }
}

/** SQL: returns the leased lookups `l` to the queue. @param from FROM and WHERE, which fence them by their token */
const releaseSql = (from: RawBuilder<unknown>) => sql`
    with released as (
      update fillrate.lookups l set state = 'pending', lease_token = null, leased_until = null ${from}
      returning ${QUEUED_COLUMNS}
    ), ${enqueuePendingSql('released')}
    select count(*) from released`

/** Releases leased lookups that were certainly not called: they are pending again at once, and none is in doubt. */
export async function releaseLookups(
  db: Database,
  leased: readonly { readonly id: number; readonly token: string }[],
): Promise<void> {
  // Matches each by its own token: a lookup that was leased again meanwhile may be in flight under another one.
  await releaseSql(sql`
        from unnest(${leased.map(({ id }) => id)}::bigint[], ${leased.map(({ token }) => token)}::uuid[]) as k (id, token)
       where l.id = k.id and l.state = 'leased' and l.lease_token = k.token`).execute(db)
}

/** Releases everything leased under a token that was certainly not called. */
export async function releaseByToken(db: Database, token: string): Promise<void> {
  await releaseSql(sql`
        from (select unnest(lookup_ids) as id from fillrate.lookup_leases where lease_token = ${token}) h
       where l.id = h.id and l.state = 'leased' and l.lease_token = ${token}`).execute(db)
}
