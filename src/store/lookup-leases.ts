import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Lookup, type LookupFields } from '../domain/lookup.ts'
import { intervalSql, opaque } from './sql.ts'
import { enqueueWriteBackSql, notSuppressedSql, resultsSql, storeLateRecords } from './complete-lookups.ts'
import type { Database } from './open.ts'

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
  /** So many of them, from the first, are asked as soon as this is committed; without it, all. */
  readonly startImmediately?: number
  /**
   * Whether emails are leased too, after what never goes in bulk; a number: only while fewer than so many of them
   * wait, because as many make a job.
   */
  readonly emails: boolean | number
  /** Only lookups of which no call has failed: the others prove little of a service that is probed. */
  readonly untried?: boolean
}

/**
 * Leases some of a run's waiting lookups: those that can only go singly first, and the oldest of each.
 * @returns in the order in which they are to be asked
 */
export async function leaseLookups(
  db: Database,
  { run, limit, token, leaseMs, emails, startImmediately = limit, untried = false }: LeaseOptions,
): Promise<LeasedLookup[]> {
  // Literally the predicates of the partial indexes: the planner uses them for nothing else.
  const single = sql`state = 'pending' and (kind <> 'email' or sync_only)`
  const email = sql`state = 'pending' and kind = 'email' and not sync_only`
  const ready = sql`run_id = ${run} and (not_before is null or not_before <= now())
    ${untried ? sql`and ${opaque(sql`reason is null`)}` : sql``}`
  const few =
    typeof emails === 'number'
      ? sql`(select count(*) from (select from fillrate.lookups where ${ready} and ${email} limit ${emails}::integer) w) < ${emails}::integer`
      : sql`true`
  const claim = (predicate: RawBuilder<unknown>, most: RawBuilder<unknown>) => sql`
      select id from fillrate.lookups where ${ready} and ${predicate}
       order by run_id, id limit ${most} for no key update skip locked`
  const most = sql`${limit}::integer`
  const singles = claim(single, most)
  const mails = claim(sql`${email} and ${few}`, most)
  // The bound is a number everywhere, never what another part has left: for a bound that it does not know the planner
  // takes a tenth of all that waits, and reads the whole table for a handful of lookups.
  const { rows } = await sql<Omit<LeasedLookup, 'token'>>`
    with single as (${singles}), ${emails === false ? sql`` : sql`email as (${mails}),`}
    claimed as (
      select id from (select id from single ${emails === false ? sql`` : sql`union all select id from email`}) c
       limit ${most}
    ),
    leased as (
      update fillrate.lookups l
         set state = 'leased', lease_token = ${token}, leased_until = now() + ${intervalSql(leaseMs)}
        from claimed where l.id = claimed.id
      returning l.id, l.kind, l.input, l.attempts
    ), asking as (
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
 * Extends the leases under these tokens. A lookup that somebody is writing at this moment is left out: it is most likely
 * being answered, and to wait for it while holding others is how two statements come to wait for each other.
 * @returns by token; one under which nothing is leased any more is missing
 */
export async function extendLookupLeases(
  db: Database,
  tokens: readonly string[],
  leaseMs: number,
): Promise<Map<string, ExtendedLeases>> {
  if (tokens.length === 0) return new Map()
  const isOurs = sql`state = 'leased' and ${opaque(sql`lease_token = any(${[...tokens]}::uuid[])`)}`
  const { rows } = await sql<ExtendedLeases & { token: string }>`
    with mine as (
      select id, lease_token as token from fillrate.lookups where ${isOurs}
    ), held as (
      select id from fillrate.lookups where ${isOurs} for no key update skip locked
    ), extended as (
      update fillrate.lookups l set leased_until = now() + ${intervalSql(leaseMs)}
        from held where l.id = held.id
      returning l.id
    )
    select token, count(*) as leased, count(extended.id) as extended
      from mine left join extended using (id) group by token`.execute(db)
  return new Map(rows.map(({ token, ...counts }) => [token, counts]))
}

/** Lookups that are leased and about to be asked, as SQL: how far each token has come, and which lookups are still ours. */
function inFlightSql(lookups: readonly LeasedLookup[]): {
  readonly asking: RawBuilder<unknown>
  readonly ours: RawBuilder<unknown>
} {
  const upTo = new Map<string, number>()
  for (const { id, token } of lookups) upTo.set(token, Math.max(id, upTo.get(token) ?? 0))
  return {
    asking: sql`asking as (
      insert into fillrate.in_flight_marks (lease_token, through_lookup_id)
      select * from unnest(${[...upTo.keys()]}::uuid[], ${[...upTo.values()]}::bigint[])
    )`,
    ours: sql`(select jsonb_object_agg(id, lease_token) from fillrate.lookups
                where id = any(${lookups.map(({ id }) => id)}::bigint[]) and ${opaque(sql`leased_until > now()`)})`,
  }
}

/**
 * To be called before leased lookups are asked, those with the lower ids first: when their process is killed, they are
 * in doubt, and what else it had leased is not.
 * @returns those that may be asked: whoever was erased meanwhile, or leased by another, is not among them
 */
export async function markInFlight(
  db: Database,
  lookups: readonly LeasedLookup[],
): Promise<readonly LeasedLookup[]> {
  if (lookups.length === 0) return []
  const { asking, ours } = inFlightSql(lookups)
  const { rows } = await sql<{ ours: LeaseHolders }>`with ${asking} select ${ours} as ours`.execute(db)
  return stillHeld(lookups, rows[0]?.ours)
}

/** By the lookup: the token under which it is leased. */
type LeaseHolders = Readonly<Record<string, string>> | null

const stillHeld = (lookups: readonly LeasedLookup[], holders: LeaseHolders | undefined): LeasedLookup[] =>
  lookups.filter(({ id, token }) => holders?.[id] === token)

export interface LookupResult extends LookupFields {
  readonly id: number
  readonly token: string
  readonly askedAt: Date
  /** Of whom the record tells, as tombstones would: it is not kept where one of them is there. */
  readonly hashes?: readonly string[]
}

export interface CompleteResult {
  /** Those of `next` that may be asked, as `begin` tells. */
  readonly started: readonly LeasedLookup[]
  /** Those whose lease was lost, or whose record tells of somebody who was erased. */
  readonly unstored: readonly LookupResult[]
}

/**
 * Stores the answers of leased lookups, and begins the next in the same statement: a slot stands idle for one round
 * trip and one commit instead of two. Where the lease was lost meanwhile, a record is still kept if none is there, and
 * never put over a newer one.
 * @param next leased, and to be asked when this is committed
 */
export async function completeLookups(
  db: Database,
  answers: readonly LookupResult[],
  next: readonly LeasedLookup[] = [],
): Promise<CompleteResult> {
  if (answers.length === 0) return { started: await markInFlight(db, next), unstored: [] }
  const { asking, ours } = next.length === 0 ? { asking: null, ours: sql`null` } : inFlightSql(next)
  const { rows } = await sql<{ stored: number[] | null; ours: LeaseHolders }>`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, attempts = v.attempts, not_before = v."notBefore",
             requested_at = v."askedAt", resolved_at = v."resolvedAt", refresh_at = v."refreshAt",
             lease_token = null, leased_until = null, unconfirmed_calls = l.unconfirmed_calls + coalesce(v."unconfirmedCalls", 0),
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${resultsSql(answers)}
       where l.id = k.key and ${opaque(sql`l.state = 'leased' and l.lease_token = v.token`)}
         and ${notSuppressedSql}
      returning l.id, l.state
    ), ${enqueueWriteBackSql} ${asking === null ? sql`` : sql`, ${asking}`}
    select (select jsonb_agg(id) from stored) as stored, ${ours} as ours`.execute(db)
  const stored = new Set(rows[0]?.stored)
  const unstored = answers.filter((one) => !stored.has(one.id))
  await storeLateRecords(
    db,
    unstored.filter((one) => one.state === Lookup.found),
  )
  return { started: stillHeld(next, rows[0]?.ours), unstored }
}

const releaseLookupSql = sql`update fillrate.lookups l set state = 'pending', lease_token = null, leased_until = null`
const isLeasedSql = sql`l.state = 'leased'`

/** Leased lookups that were certainly not asked: they may be at once, and nothing is in doubt. */
export async function releaseLookups(
  db: Database,
  leased: readonly { readonly id: number; readonly token: string }[],
): Promise<void> {
  // Each under its own token: one that was leased again meanwhile may be on the wire under another of them.
  await sql`
    ${releaseLookupSql} from unnest(${leased.map(({ id }) => id)}::bigint[], ${leased.map(({ token }) => token)}::uuid[]) as k (id, token)
     where l.id = k.id and ${isLeasedSql} and l.lease_token = k.token`.execute(db)
}

/** The same for all that is leased under a token. */
export async function releaseByToken(db: Database, token: string): Promise<void> {
  await sql`${releaseLookupSql} where ${isLeasedSql} and l.lease_token = ${token}`.execute(db)
}
