import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { type CallCost, Lookup, type LookupFields } from '../domain/lookup.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import { type Bounding, budgetSql, isPaidSql, lockBudget, mostSql, paidSql, roomSql } from './budgets.ts'
import { notSuppressedSql, RESULT_COLUMNS, storeLateRecords } from './complete-lookups.ts'
import { enqueueWriteBackSql } from './lookups.ts'
import type { Database } from './open.ts'
import {
  claimPendingSql,
  dequeuePendingSql,
  enqueuePendingSql,
  hasPendingSql,
  kindsOfEndpoint,
  openPendingSql,
  type RunService,
  QUEUED_COLUMNS,
} from './pending-lookups.ts'
import { countCallsSql } from './spend.ts'
import { anyOf, fromNow, intervalSql, NOW, opaque, PREPARED, readOne, recordBatch } from './sql.ts'
import { type Connection, inTransaction } from './transaction.ts'

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
}: LeaseOptions) => {
  const single = kindsOfEndpoint(endpoint)
  const ofEndpoint = bulk.filter(({ kinds }) => kinds.every((kind) => single.includes(kind)))
  const open = openPendingSql({ run, service }, limit, {
    columns: sql`l.kind, l.source`,
    bulk: ofEndpoint.map(({ kinds, singly }) => ({
      kinds,
      isTaken:
        typeof singly === 'number'
          ? sql<boolean>`not ${hasPendingSql({ run, service }, kinds, singly)}`
          : sql<boolean>`${singly}::boolean`,
    })),
    single,
    condition: untried ? sql`l.reason is null` : sql`true`,
    ...(isBounded && { isPaid: isPaidSql(service, sql`p.kind`, sql`p.source`) }),
  })
  const claimed = claimPendingSql(sql`${limit}::integer`)
  const ofRun = sql<boolean>`r.id = ${run} and r.state = 'running'`
  const paid = isBounded
    ? sql`${budgetSql(ofRun)}, ${roomSql(service)}, ${open}, claimed as (
      select c.*,
             row_number() over (order by is_bulk, entry, id) as n
        from (${claimed}) c
    ), paid as (${paidSql(service)}), pruned as (
      -- Those that have ended: they would be read again with each lease.
      delete from fillrate.lookup_leases h
       using budget
       where h.run_id = any(budget.spenders)
         and h.lease_token not in (select lease_token from held)
    )`
    : sql`${open}, paid as (${claimed})`
  return sql`${paid}, ${dequeuePendingSql('paid')}, leased as (
      update fillrate.lookups l
         set state = 'leased', lease_token = ${token}
        from paid
       where l.ctid = paid.tid
      returning l.id, l.kind, l.input, l.attempts
    ), listed as (
      insert into fillrate.lookup_leases
             (lease_token, leased_until, run_id, service_id, most, lookup_ids)
      select ${token},
             now() + ${intervalSql(leaseMs)},
             ${run},
             ${service},
             ${mostSql(service, { isBounded, most })},
             array_agg(id)
        from leased
      having count(*) > 0
    )`
}

type LeasedColumns = Omit<LeasedLookup, 'token'>

/** Leases pending lookups, as many as the budget of their run pays. @returns in the order in which to call */
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

/** Extends the leases under these tokens. @returns those that have not expired */
export async function extendLookupLeases(
  db: Database,
  tokens: readonly string[],
  leaseMs: number,
): Promise<Set<string>> {
  const held = db.updateTable('fillrate.lookup_leases').where('lease_token', '=', anyOf(tokens))
  const extended = held.where('leased_until', '>', NOW).set({ leased_until: fromNow(leaseMs) })
  return new Set((await extended.returning('lease_token').execute()).map((row) => row.lease_token))
}

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
      returning ${QUEUED_COLUMNS},
                v.call,
                coalesce(v.credits::numeric, (v.call = 'billed')::integer, 0) as credits,
                v.overrun::numeric as overrun,
                coalesce(v."unconfirmedCalls", 0) as doubt,
                case
                  when v."unconfirmedCalls" > 0
                  then v."unconfirmedCalls" * coalesce((
                         select (h.most ->> l.kind)::numeric
                           from fillrate.lookup_leases h
                          where h.lease_token = v.token
                       ), 1)
                end as credits_in_doubt
    ), ${countCallsSql}, ${enqueueWriteBackSql('stored')}, ${enqueuePendingSql('stored')}
    ${next === null ? sql`` : sql`, ${leaseSql(next)}`}
    select (select jsonb_agg(id) from stored) as stored,
           ${next === null ? sql`null` : sql`(select jsonb_agg(leased order by id) from leased)`} as leased`
  const { stored, leased } = await readOne(db, statement)
  const isStored = new Set(stored)
  const unstored = results.filter((one) => !isStored.has(one.id))
  await storeLateRecords(
    db,
    unstored.filter((one) => one.state === Lookup.found),
  )
  const token = next?.token ?? ''
  return { leased: (leased ?? []).map((lookup) => ({ ...lookup, token })), unstored }
}

/** SQL: returns the leased lookups `l` to the queue. @param from FROM and WHERE, which fence them by their token */
const releaseSql = (from: RawBuilder<unknown>) => sql`
    with released as (
      update fillrate.lookups l set state = 'pending', lease_token = null ${from}
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
