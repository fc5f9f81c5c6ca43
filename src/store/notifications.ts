import { type RawBuilder, sql } from 'kysely'
import type { FillrateNotification, NotifiedRun } from '../domain/notification.ts'
import type { TroubleDetails } from '../domain/trouble.ts'
import { intervalSql, jsonBatch } from './sql.ts'
import type { Database } from './open.ts'
import type { Connection, Tx } from './transaction.ts'

// An outbox: a notification is inserted in the transaction that begins or ends what it is about, and sent afterwards by
// any process that knows its target. A target is known by a fingerprint, because its URL may be a secret.

/** A notification for one target. */
export interface OutgoingNotification {
  /** `trouble 12`, `run 86`: with event and target, what it can be inserted for once. */
  readonly about: string
  readonly target: string
  /** The host of the target, which people may see. */
  readonly host: string
  readonly body: FillrateNotification
  /** How long what it is about must last before it is sent, in milliseconds. */
  readonly delayMs: number
}

const entriesSql = (entries: readonly OutgoingNotification[]) => sql`
  jsonb_to_recordset(${jsonBatch(
    entries.map(({ delayMs, body, ...one }) => ({
      ...one,
      body: JSON.stringify(body),
      event: body.event,
      event_id: body.event_id,
      delay_ms: delayMs,
    })),
  )}) as v (about text, target text, host text, event text, event_id uuid, body text, delay_ms double precision)`

const insertSql = (from: RawBuilder<unknown>) => sql`
  insert into fillrate.notifications (event_id, event, about, target, host, body, not_before)
  select event_id, event, about, target, host, body::json, now() + make_interval(secs => delay_ms / 1000) from ${from}
  on conflict (about, event, target) do nothing`

/** Queues notifications. */
export async function enqueueNotifications(
  tx: Connection,
  entries: readonly OutgoingNotification[],
): Promise<void> {
  if (entries.length > 0) await insertSql(entriesSql(entries)).execute(tx)
}

/**
 * Queues notifications of what is over. What ended before its begin was sent is reported to no one: neither begin nor end.
 * What was over before it could be stored has no begin; it is reported if it lasted for `delayMs`.
 */
export async function enqueueEndNotifications(
  tx: Tx,
  entries: readonly OutgoingNotification[],
): Promise<void> {
  if (entries.length === 0) return
  await sql`
    with ended as (
      select * from ${entriesSql(entries)}
    ), cancelled as (
      delete from fillrate.notifications n using ended e
       where n.about = e.about and n.target = e.target and n.event = 'trouble_began'
         and n.state = 'pending' and n.attempts = 0
      returning n.about, n.target
    ), reported as (
      select event_id, event, about, target, host, body, 0 as delay_ms from ended e
       where not exists (select from cancelled c where c.about = e.about and c.target = e.target)
         and (exists (select from fillrate.notifications n where n.about = e.about and n.target = e.target)
              or (not exists (select from fillrate.notifications n where n.about = e.about)
                  and (e.body::json ->> 'duration_ms')::double precision >= e.delay_ms))
    )
    ${insertSql(sql`reported`)}`.execute(tx)
}

/** A notification that this process sends. */
export interface LeasedNotification {
  readonly id: number
  readonly target: string
  readonly body: FillrateNotification
  /** This one included. */
  readonly attempts: number
  readonly token: string
  /** What is known now of the trouble whose begin it reports; null: it reports something else. */
  readonly details: TroubleDetails | null
}

/**
 * Leases the notifications of these targets that are due, oldest first. The end of a trouble waits until its begin was
 * sent or given up.
 */
export async function leaseNotifications(
  db: Database,
  targets: readonly string[],
  { limit, token, leaseMs }: { readonly limit: number; readonly token: string; readonly leaseMs: number },
): Promise<LeasedNotification[]> {
  const { rows } = await sql<LeasedNotification>`
    with due as (
      select id from fillrate.notifications n
       where state = 'pending' and not_before <= now() and target = any(${[...targets]}::text[])
         and (leased_until is null or leased_until < now())
         and not exists (
               select from fillrate.notifications e
                where e.about = n.about and e.target = n.target and e.id < n.id and e.state = 'pending')
       order by id limit ${limit} for update skip locked
    )
    update fillrate.notifications n
       set attempts = n.attempts + 1, lease_token = ${token}, leased_until = now() + ${intervalSql(leaseMs)}
      from due where n.id = due.id
    returning n.id, n.target, n.body, n.attempts, n.lease_token as token,
              case when n.event = 'trouble_began' then (
                select details from fillrate.troubles t where t.id = substr(n.about, 9)::bigint) end as details`.execute(
    db,
  )
  return rows.toSorted((a, b) => a.id - b.id)
}

/** How an attempt went; `reason` null: the target accepted it. */
export interface NotificationAttempt {
  readonly id: number
  readonly token: string
  readonly reason: string | null
  readonly retryMs: number
}

/** A notification is given up after this long. */
const GIVE_UP_MS = 24 * 3_600_000

/** What was given up. */
export interface GivenUpNotification {
  readonly host: string
  readonly event: string
  readonly attempts: number
  readonly reason: string | null
}

/**
 * Records attempts, by the token of their lease.
 * @returns what is given up: a day old, and still not accepted
 */
export async function recordNotificationAttempts(
  db: Database,
  attempts: readonly NotificationAttempt[],
): Promise<GivenUpNotification[]> {
  const isOldSql = sql`n.created_at < now() - ${intervalSql(GIVE_UP_MS)}`
  const { rows } = await sql<GivenUpNotification & { state: string }>`
    update fillrate.notifications n
       set state = case when v.reason is null then 'delivered' when ${isOldSql} then 'given_up' else 'pending' end,
           finished_at = case when v.reason is null or ${isOldSql} then now() end,
           reason = v.reason, lease_token = null, leased_until = null,
           not_before = now() + make_interval(secs => v.retry_ms / 1000)
      from jsonb_to_recordset(${jsonBatch(attempts.map(({ retryMs, ...one }) => ({ ...one, retry_ms: retryMs })))})
             as v (id bigint, token uuid, reason text, retry_ms double precision)
     where n.id = v.id and n.lease_token = v.token
    returning n.host, n.event, n.attempts, n.reason, n.state`.execute(db)
  return rows.filter(({ state }) => state === 'given_up')
}

/** Gives up what no process sends any more: its target has left the configuration. */
export async function giveUpUnclaimed(db: Database): Promise<GivenUpNotification[]> {
  const { rows } = await sql<GivenUpNotification>`
    update fillrate.notifications n
       set state = 'given_up', finished_at = now(), lease_token = null, leased_until = null,
           reason = coalesce(reason, 'no process has this target in its configuration')
     where state = 'pending' and created_at < now() - ${intervalSql(GIVE_UP_MS + 2 * 3_600_000)}
    returning host, event, attempts, reason`.execute(db)
  return rows
}

/** A target that has accepted nothing since it refused something. */
interface FailingTarget {
  readonly host: string
  readonly reason: string
  readonly since: Date
  readonly waiting: number
}

/** Targets that have refused one notification three times, or had one given up, and accepted none since. */
export async function listFailingTargets(db: Connection): Promise<FailingTarget[]> {
  const { rows } = await sql<FailingTarget>`
    select host, min(created_at) as since, count(*) filter (where state = 'pending') as waiting,
           (array_agg(reason order by id desc) filter (where reason is not null))[1] as reason
      from fillrate.notifications n
     where reason is not null and ((state = 'pending' and attempts >= 3) or state = 'given_up')
       and not exists (
             select from fillrate.notifications d
              where d.target = n.target and d.state = 'delivered' and d.finished_at > n.created_at)
     group by host`.execute(db)
  return rows
}

/** The latest notifications, the latest first. */
export function listNotifications(db: Connection, limit: number) {
  const latest = db.selectFrom('fillrate.notifications').orderBy('id', 'desc').limit(limit)
  const sent = latest.select(['id', 'host', 'state', 'body', 'attempts'])
  return sent.select(['reason', 'created_at', 'finished_at']).execute()
}

/** What a run has reported, or what is known of one that has not. */
export async function findNotifiedRun(db: Connection, run: number): Promise<NotifiedRun | null> {
  const { rows } = await sql<NotifiedRun>`
    select id, trigger, sources, coalesce(totals ->> 'status', state) as status, reason, totals -> 'rows' as rows,
           (totals #>> '{lookups,requested}')::bigint as lookups_requested,
           nullif(totals #> '{spend,cost}', 'null') as cost,
           (totals #>> '{cells,written}')::bigint as cells_written
      from fillrate.runs where id = ${run}`.execute(db)
  return rows[0] ?? null
}
