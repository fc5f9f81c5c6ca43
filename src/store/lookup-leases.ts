import { sql, type RawBuilder } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Lookup, type CallCost, type LookupFields } from '../domain/lookup.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import { budgetSql, isPaidSql, lockBudget, mostSql, paidSql, roomSql, type Bounding } from './budgets.ts'
import { releaseOvertaken } from './lookups.ts'
import type { Database } from './open.ts'
import { countCallsSql, settleCredits } from './spend.ts'
import { intervalSql, jsonBatch, opaque, PREPARED, readOne, recordBatch } from './sql.ts'
import { enqueueWriteBackSql, IS_LEASED, isHeldSql, lockToReadSql, WITHOUT_RECORD } from './terms.ts'
import { inTransaction, type Connection, type Tx } from './transaction.ts'
import { claimPendingSql, hasPendingSql, kindsOfEndpoint, type RunService } from './pending-lookups.ts'

export interface LeasedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly input: Record<string, string>
  readonly attempts: number
  readonly token: string
}

/** Which lookups to lease, and how. */
export interface LeaseOptions extends RunService, Bounding {
  readonly limit: number
  readonly token: string
  readonly leaseMs: number
  /**
   * Kinds that may go in bulk, and whether to lease them too, after the lookups that can only be requested singly. A number: only
   * while fewer of them than this are pending, because that many make a job. Default: nothing goes in bulk.
   */
  readonly bulk?: readonly { readonly kinds: readonly LookupKind[]; readonly singly: boolean | number }[]
  /** Only lookups of people or only of companies, if each has a limit of its own. Default: both. */
  readonly endpoint?: SingleEndpoint | null
  /** Only lookups without a failed call: the others prove little about a service that is being probed. */
  readonly untried?: boolean
  /** Only lookups behind this identifier: the last one that was leased. Default: all. */
  readonly after?: number
}

/**
 * SQL: the CTE `leased (id, kind, input, attempts)`: pending lookups of a run and service, oldest first; those that can only be requested
 * singly come before those that may go in bulk. From its commit on they may be called, and are in doubt if the process dies.
 */
const leaseSql = ({
  run,
  service,
  limit,
  token,
  leaseMs,
  isBounded = false,
  most = null,
  bulk = [],
  endpoint = null,
  untried = false,
  after = 0,
}: LeaseOptions) => {
  const single = kindsOfEndpoint(endpoint)
  const ofEndpoint = bulk.filter(({ kinds }) => kinds.every((kind) => single.includes(kind)))
  const isUntried = untried ? sql`l.reason is null` : sql`true`
  const isPaid = isBounded ? isPaidSql(service, sql`l.kind`) : sql`true`
  const claimed = claimPendingSql({
    run,
    service,
    limit: sql`${limit}::integer`,
    bulk: ofEndpoint.map(({ kinds, singly }) => ({
      kinds,
      isTaken:
        typeof singly === 'number'
          ? sql<boolean>`not ${hasPendingSql({ run, service }, kinds, singly)}`
          : sql<boolean>`${singly}::boolean`,
    })),
    single,
    after,
    condition: sql`${isUntried} and ${isPaid}`,
  })
  const ofRun = sql<boolean>`r.id = ${run} and r.state = 'running'`
  const paid = isBounded
    ? sql`${budgetSql(ofRun)}, ${roomSql(service)}, claimed as (
      select c.*,
             row_number() over (order by is_bulk, id) as n
        from (${claimed}) c
    ), paid as (${paidSql(service)})`
    : sql`paid as (${claimed})`
  return sql`${paid}, leased as (
      update fillrate.lookups l
         set state = 'leased', lease_token = ${token}, leased_until = now() + ${intervalSql(leaseMs)},
             most = ${mostSql(service, { isBounded, most }, sql`l.kind`)}
        from paid
       where l.ctid = paid.tid
      returning l.id, l.kind, l.input, l.attempts
    )`
}

type LeasedColumns = Omit<LeasedLookup, 'token'>

/** Leases pending lookups that the budget of their run pays. @returns in the order in which to call */
export async function leaseLookups(db: Database, options: LeaseOptions): Promise<LeasedLookup[]> {
  const lease = async (on: Connection): Promise<LeasedLookup[]> => {
    const { rows } = await sql<LeasedColumns>`${PREPARED}
    with ${leaseSql(options)} select * from leased order by id`.execute(on)
    return rows.map((row) => ({ ...row, token: options.token }))
  }
  if (options.isBounded !== true) return lease(db)
  return inTransaction(db, async (tx) => {
    await lockBudget(tx, options.run)
    return lease(tx)
  })
}

/**
 * Extends the leases under these tokens. Waits for no lock of a lookup, which a pick holds until it commits.
 * @returns the tokens whose leases are all extended; of the others, one has expired or ended, or is locked
 */
export async function extendLookupLeases(
  db: Database,
  tokens: readonly string[],
  leaseMs: number,
): Promise<Set<string>> {
  const { rows } = await sql<{ token: string }>`
    with held as materialized (
      select ctid as tid, lease_token, leased_until
        from fillrate.lookups
       where ${IS_LEASED} and lease_token = any(${[...tokens]}::uuid[])
    ), extended as (
      update fillrate.lookups l set leased_until = now() + ${intervalSql(leaseMs)}
        from (
          select held.tid
            from held
           cross join lateral (
             select l.ctid from fillrate.lookups l where l.ctid = held.tid for no key update skip locked offset 0) l
           where ${isHeldSql(sql`held.leased_until`)}
             and l.ctid = held.tid
        ) free
       where l.ctid = free.tid
      returning l.lease_token
    )
    select lease_token as token
      from held
     group by lease_token
    having count(*) = (select count(*) from extended e where e.lease_token = held.lease_token)`.execute(db)
  return new Set(rows.map(({ token }) => token))
}

/** Releases leased lookups that were certainly not called: they are pending again at once, and none is in doubt. */
export async function releaseLookups(
  db: Database,
  leased: readonly { readonly id: number; readonly token: string }[],
): Promise<void> {
  // Matches each by its own token: a lookup that was leased again meanwhile may be in flight under another one.
  await sql`
    update fillrate.lookups l set state = 'pending', lease_token = null
      from unnest(${leased.map(({ id }) => id)}::bigint[], ${leased.map(({ token }) => token)}::uuid[]) as k (id, token)
     where l.id = k.id and l.state = 'leased' and l.lease_token = k.token`.execute(db)
}

/** Releases everything leased under a token that was certainly not called. */
export async function releaseByToken(db: Database, token: string): Promise<void> {
  await sql`
    update fillrate.lookups set state = 'pending', lease_token = null
     where ${IS_LEASED} and lease_token = ${token}`.execute(db)
}

// The results of leased lookups, and of those in jobs.

/** Columns of a result that a delivery sets. Each column costs up to a fifteenth of what it takes to store the result. */
const DELIVERED_COLUMNS = {
  id: 'bigint',
  state: 'text',
  reason: 'text',
  requestedAt: 'timestamptz',
  resolvedAt: 'timestamptz',
  refreshAt: 'timestamptz',
  record: 'json',
  confidence: 'double precision',
} as const

/** Columns of the result of a call. */
const RESULT_COLUMNS = {
  ...DELIVERED_COLUMNS,
  token: 'uuid',
  attempts: 'integer',
  notBefore: 'timestamptz',
  hashes: 'jsonb',
  unconfirmedCalls: 'integer',
  call: 'text',
  credits: 'double precision',
  overrun: 'double precision',
} as const

/** SQL: none of the suppression hashes of the result `v` is suppressed. */
const notSuppressedSql = sql`${lockToReadSql} and not exists (
  select from fillrate.suppressions s where s.hash in (select jsonb_array_elements_text(v.hashes)))`

export interface LookupResult extends LookupFields {
  readonly id: number
  readonly token: string
  readonly requestedAt: Date
  /** Missing: nothing was sent. */
  readonly call?: CallCost | undefined
  /** What the call cost. Default: one credit if it is billed. */
  readonly credits?: number | undefined
  /** The same, if it is more than was expected. */
  readonly overrun?: number | null
  /** Suppression hashes of all that the record names: it is not stored if one of them is suppressed. */
  readonly hashes?: readonly string[]
  /** Those of them that are of its subject. */
  readonly subjectHashes?: readonly string[]
}

export interface CompleteResult {
  /** What was leased with the same statement, in the order in which to call. */
  readonly leased: readonly LeasedLookup[]
  /** Results whose lease was lost, or whose subject was erased. */
  readonly unstored: readonly LookupResult[]
}

/**
 * Stores the results of leased lookups, and leases the next ones in the same statement: a slot is idle for one
 * round trip and one commit instead of two. If the lease was lost, a record is still stored where there is none, and
 * never replaces a newer one.
 * @param next what to lease; null: nothing
 */
export async function completeLookups(
  db: Connection,
  results: readonly LookupResult[],
  next: LeaseOptions | null = null,
): Promise<CompleteResult> {
  if (results.length === 0) return { leased: [], unstored: [] }
  const statement = sql<{ stored: number[] | null; leased: LeasedColumns[] | null }>`${PREPARED}
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, attempts = v.attempts, not_before = v."notBefore",
             requested_at = case when v.call is null then l.requested_at else v."requestedAt" end, resolved_at = v."resolvedAt", refresh_at = v."refreshAt",
             lease_token = null, unconfirmed_calls = l.unconfirmed_calls + coalesce(v."unconfirmedCalls", 0),
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${recordBatch(results, RESULT_COLUMNS)}
       where l.id = v.id and ${opaque(sql`l.state = 'leased' and l.lease_token = v.token`)}
         and ${notSuppressedSql}
      returning l.id, l.state, l.run_id, l.service_id, l.kind, l.source,
                v.call,
                coalesce(v.credits::numeric, (v.call = 'billed')::integer, 0) as credits,
                v.overrun::numeric as overrun,
                coalesce(v."unconfirmedCalls", 0) as doubt,
                v."unconfirmedCalls" * coalesce(l.most, 1) as credits_in_doubt
    ), ${countCallsSql}, ${enqueueWriteBackSql('stored')}
    ${next === null ? sql`` : sql`, ${leaseSql(next)}`}
    select (select jsonb_agg(id) from stored) as stored,
           ${next === null ? sql`null` : sql`(select jsonb_agg(leased order by id) from leased)`} as leased`
  const { stored, leased } = await readOne(db, statement)
  const isStored = new Set(stored)
  const unstored = results.filter(({ id }) => !isStored.has(id))
  await storeLateRecords(
    db,
    unstored.filter(({ state }) => state === Lookup.found),
  )
  const token = next?.token ?? ''
  return { leased: (leased ?? []).map((lookup) => ({ ...lookup, token })), unstored }
}

/**
 * Stores a paid record that arrived after its lease or job was lost, if the lookup has no record yet, even if it was
 * marked not found since. Rows that finished without the record become due.
 */
export async function storeLateRecords(
  db: Connection,
  results: readonly (LookupFields & { readonly id: number; readonly hashes?: readonly string[] })[],
): Promise<void> {
  if (results.length === 0) return
  const batch = recordBatch(results, RESULT_COLUMNS)
  const isNew = sql`${opaque(sql`l.record is null`)} and ${notSuppressedSql}`
  await releaseOvertaken(db, batch, isNew)
  await sql`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."refreshAt", not_before = null,
             lease_token = null, record = v.record, confidence = v.confidence
        from ${batch}
       where l.id = v.id and ${isNew}
      returning l.id, l.state
    ), ${enqueueWriteBackSql('stored')}
    update fillrate.rows r set due_at = now() from stored
     where r.lookup_id = stored.id and ${opaque(sql`r.state in (${WITHOUT_RECORD})`)}`.execute(db)
}

export interface DeliveredResult extends LookupFields {
  readonly id: number
  /** When its job was made. */
  readonly requestedAt: Date
  /** The lookup waits for the result of this job. */
  readonly isOpen: boolean
  readonly job: string
  /** What it cost. Missing: one credit, counted when its job was accepted. */
  readonly credits?: number
  /** The most that it could cost, in doubt since its job was accepted; null: one credit, counted then. */
  readonly reserved: number | null
  /** The cost of its whole job is settled already. */
  readonly isSettled?: boolean
}

/**
 * Stores results from deliveries. A lookup that has a result keeps it. One that has left the job without a result takes what
 * comes late, unless it has been requested anew since: a repeated delivery of an old job is no answer to a refresh.
 * @returns the stored results
 */
export async function completeFromDelivery<Result extends DeliveredResult>(
  tx: Tx,
  results: readonly Result[],
): Promise<Result[]> {
  const awaited = await storeDelivered(
    tx,
    results.filter(({ isOpen }) => isOpen),
    sql`true`,
  )
  // A Date has milliseconds.
  const isSameRequest = sql`date_trunc('milliseconds', l.enqueued_at) <= v."requestedAt"`
  const late = results.filter(({ isOpen }) => !isOpen)
  if (late.length > 0) await releaseOvertaken(tx, recordBatch(late, DELIVERED_COLUMNS), isSameRequest)
  const stored = [...awaited, ...(await storeDelivered(tx, late, isSameRequest))]
  const settled = stored.flatMap(({ id, job, credits, reserved, isSettled = false }) =>
    credits === undefined ? [] : [{ id, job, credits, reserved, isSettled }],
  )
  await settleCredits(tx, settled)
  return stored
}

async function storeDelivered<Result extends DeliveredResult>(
  tx: Tx,
  results: readonly Result[],
  condition: RawBuilder<unknown>,
): Promise<Result[]> {
  if (results.length === 0) return []
  const { rows } = await sql<{ id: number }>`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."refreshAt", not_before = null,
             lease_token = null, requested_at = coalesce(l.requested_at, v."requestedAt"),
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${recordBatch(results, DELIVERED_COLUMNS)}
       where l.id = v.id and ${opaque(sql`l.state in ('submitted', 'pending', 'leased')`)} and ${condition}
      returning l.id, l.state
    ), ${enqueueWriteBackSql('stored')}
    select id from stored`.execute(tx)
  const storedIds = new Set(rows.map((row) => row.id))
  const [stored, others] = [true, false].map((isStored) =>
    results.filter(({ id }) => storedIds.has(id) === isStored),
  ) as [Result[], Result[]]
  await storeLateRecords(
    tx,
    others.filter(({ state }) => state === Lookup.found),
  )
  return stored
}

/** A response that was no valid record, stored for diagnosis. */
export interface MalformedResponse {
  readonly lookup: number
  readonly status: number
  /** The start of its body. */
  readonly body: string
}

/** Stores malformed responses, the latest one of each lookup. */
export async function storeMalformedResponses(
  db: Database,
  results: readonly MalformedResponse[],
): Promise<void> {
  if (results.length === 0) return
  await sql`
    update fillrate.lookups l
       set malformed = jsonb_build_object('status', v.status, 'body', v.body, 'received_at', clock_timestamp())
      from (select * from jsonb_to_recordset(${jsonBatch(results)}) as v (lookup bigint, status integer, body text) order by lookup) v
     where l.id = v.lookup`.execute(db)
}
