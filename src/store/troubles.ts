import { type RawBuilder, sql } from 'kysely'
import {
  OWN_TROUBLE_TTL_MS,
  type ObservedTrouble,
  type Trouble,
  type TroubleCode,
  type TroubleDetails,
  toTroubleKind,
  TROUBLES,
} from '../domain/trouble.ts'
import type { Database } from './open.ts'
import { intervalSql, jsonBatch } from './sql.ts'
import { type Connection, inTransaction, type Tx } from './transaction.ts'

export interface TroubleReport {
  /** The process: host name and process id. */
  readonly reporter: string
  /** The codes that this report covers: an open trouble of them that was not observed has ended. */
  readonly codes: readonly TroubleCode[]
  /** The one subject that it covers. Default: all. */
  readonly subject?: string
  /** When the facts were read, by Postgres's clock. Default: now. A trouble that another process has seen since stays. */
  readonly at?: Date
  /** What this process knows to be over, in whatever process it was seen: an accepted call ends a refused key. */
  readonly proofs?: readonly TroubleProof[]
}

/** What shows that a trouble is over, if no process has learnt since that it holds. */
export interface TroubleProof extends Pick<Trouble, 'code' | 'subject'> {
  /** By Postgres's clock. Default: now. */
  readonly at?: Date
}

/** What a report has changed. Each begin and each end is in one report of one process, and in no other. */
export interface TroubleChanges {
  readonly begun: readonly StoredTrouble[]
  readonly ended: readonly StoredTrouble[]
}

export interface TroubleReportResult extends TroubleChanges {
  /** What was observed although it has ended since its process learnt it: another process has proved that. */
  readonly disproved: readonly Pick<Trouble, 'code' | 'subject'>[]
}

/** Queues notifications of what began and what ended, in the transaction that marks them as queued. */
export type QueueNotifications = (tx: Tx, changes: TroubleChanges) => Promise<void>

export interface StoredTrouble extends Trouble {
  readonly id: number
  /** When a process last saw that it holds. */
  readonly seenAt: Date
}

/** What began and ended unseen by a process that knows whom to notify, and longer ago than this, is no news. */
const NEWS_MS = 5 * 60_000

/** Advisory lock: one report after the other, so that one with older facts sees what a newer one has ended. */
const REPORT_LOCK_ID = 4_713_117_286

/**
 * Records which troubles hold: begins those that are new, refreshes those that last, ends those that are over.
 * A report with older facts than those of another process neither ends what that one has seen nor begins again what it
 * has ended. A trouble that only one process can know ends when that process does not report it any more, or another
 * one proves that it is over.
 * @param queueNotifications called in the same transaction with what no process has queued yet, in whatever process it was seen.
 *   Null: this process does not know whom to notify.
 */
export async function reportTroubles(
  db: Database,
  { reporter, codes, subject, at, proofs = [] }: TroubleReport,
  observed: readonly ObservedTrouble[],
  queueNotifications: QueueNotifications | null = null,
): Promise<TroubleReportResult> {
  const given = observed.map(({ code, subject, details, since, knownAt, endedAt }) => ({
    code,
    subject,
    details,
    since,
    severity: TROUBLES[code].severity,
    known_at: knownAt ?? at ?? null,
    ended_at: endedAt ?? null,
  }))
  const endable = codes.map((code) => {
    const { isOwn = false, holdMs = 0 } = toTroubleKind(code)
    return { code, is_own: isOwn, hold_s: holdMs / 1_000 }
  })
  return inTransaction(db, async (tx) => {
    await sql`select pg_advisory_xact_lock(${REPORT_LOCK_ID})`.execute(tx)
    const { rows } = await sql<TroubleRow & { change: 'begun' | 'ended' | 'disproved' }>`
      with facts as (
        select coalesce(${at ?? null}::timestamptz, clock_timestamp()) as at
      ), observed as (
        select code, subject, severity, details, since, ended_at, coalesce(ended_at, at) as seen_at,
               coalesce(known_at, at) as known_at
          from facts, jsonb_to_recordset(${jsonBatch(given)}) as o
            (code text, subject text, severity text, details jsonb, since timestamptz, known_at timestamptz, ended_at timestamptz)
      ), refreshed as (
        update fillrate.troubles t set seen_at = o.seen_at, known_at = greatest(t.known_at, o.known_at),
               details = o.details, reported_by = ${reporter}
          from observed o
         where t.ended_at is null and t.code = o.code and t.subject = o.subject and t.seen_at < o.seen_at
           and o.ended_at is null
      ), begun as (
        insert into fillrate.troubles
          (code, subject, severity, details, began_at, seen_at, known_at, ended_at, reported_by)
        select o.code, o.subject, o.severity, o.details, least(o.since, o.seen_at), o.seen_at, o.known_at, o.ended_at, ${reporter}
          from observed o
         where not exists (
                 select from fillrate.troubles t
                  where t.code = o.code and t.subject = o.subject
                    and (t.ended_at is null or t.ended_at >= case when o.ended_at is null then o.known_at else o.since end))
        returning *
      ), ended as (
        update fillrate.troubles t set ended_at = clock_timestamp()
          from facts, jsonb_to_recordset(${jsonBatch(endable)}) as e (code text, is_own boolean, hold_s float8)
         where t.ended_at is null and t.code = e.code and (${subject ?? null}::text is null or t.subject = ${subject ?? null})
           and t.seen_at <= facts.at - make_interval(secs => e.hold_s)
           and (not e.is_own or t.reported_by = ${reporter}
                or t.seen_at < clock_timestamp() - ${intervalSql(OWN_TROUBLE_TTL_MS)}
                or exists (select from jsonb_to_recordset(${jsonBatch(proofs)}) as p (code text, subject text, at timestamptz)
                            where p.code = t.code and p.subject = t.subject
                              and coalesce(p.at, clock_timestamp()) > t.known_at))
           and not exists (
                 select from observed o
                  where o.code = t.code and o.subject = t.subject and o.ended_at is null)
        returning t.*
      )
      select 'begun' as change, b.* from begun b where b.ended_at is null
      union all select 'ended', b.* from begun b where b.ended_at is not null
      union all select 'ended', e.* from ended e
      union all
      select 'disproved', t.* from observed o join fillrate.troubles t
          on t.code = o.code and t.subject = o.subject and t.ended_at >= o.known_at
       where o.ended_at is null
      order by 2`.execute(tx)
    const pickChange = (change: 'begun' | 'ended' | 'disproved') =>
      rows.filter((row) => row.change === change).map(toTrouble)
    if (queueNotifications !== null) await notifyOfTroubles(tx, queueNotifications)
    return { begun: pickChange('begun'), ended: pickChange('ended'), disproved: pickChange('disproved') }
  })
}

const UNQUEUED_SQL = sql`(notified = 'none' or (notified = 'begin' and ended_at is not null))`

/** Queues what no process has queued yet. The reports exclude each other, so that none is queued twice. */
async function notifyOfTroubles(tx: Tx, queueNotifications: QueueNotifications): Promise<void> {
  const { rows } = await sql<TroubleRow & { is_news: boolean }>`
    with unqueued as (
      select id, notified = 'none' and ended_at < clock_timestamp() - ${intervalSql(NEWS_MS)} as is_old
        from fillrate.troubles where ${UNQUEUED_SQL}
    )
    update fillrate.troubles t set notified = case when t.ended_at is null then 'begin' else 'end' end
      from unqueued u where u.id = t.id
    returning t.*, not coalesce(u.is_old, false) as is_news`.execute(tx)
  const news = rows.filter((row) => row.is_news && Object.hasOwn(TROUBLES, row.code)).map(toTrouble)
  if (news.length === 0) return
  await queueNotifications(tx, {
    begun: news.filter(({ endedAt }) => endedAt === null),
    ended: news.filter(({ endedAt }) => endedAt !== null),
  })
}

/** Whether there is a trouble whose begin or end is not queued as a notification. */
export async function hasUnqueuedTroubles(db: Connection): Promise<boolean> {
  const { rows } = await sql`select from fillrate.troubles where ${UNQUEUED_SQL} limit 1`.execute(db)
  return rows.length > 0
}

interface TroubleRow {
  id: number
  code: TroubleCode
  subject: string
  severity: Trouble['severity']
  details: TroubleDetails
  began_at: Date
  seen_at: Date
  ended_at: Date | null
}

const toTrouble = (row: TroubleRow): StoredTrouble => ({
  id: row.id,
  code: row.code,
  subject: row.subject,
  severity: row.severity,
  since: row.began_at,
  seenAt: row.seen_at,
  endedAt: row.ended_at,
  details: row.details,
})

/** The troubles that hold, errors first, then the oldest first. */
export const listOpenTroubles = (db: Connection): Promise<StoredTrouble[]> =>
  listTroubles(db, sql`where ended_at is null order by severity, began_at, id`)

/** The latest troubles, open or over, the latest first. */
export const listRecentTroubles = (db: Connection, limit: number): Promise<StoredTrouble[]> =>
  listTroubles(db, sql`order by began_at desc, id desc limit ${limit}`)

/** Troubles of a code that this version does not know, written by a newer one, are left out. */
async function listTroubles(db: Connection, which: RawBuilder<unknown>): Promise<StoredTrouble[]> {
  const { rows } = await sql<TroubleRow>`
    select id, code, subject, severity, details, began_at, seen_at, ended_at from fillrate.troubles ${which}`.execute(
    db,
  )
  return rows.filter((row) => Object.hasOwn(TROUBLES, row.code)).map(toTrouble)
}
