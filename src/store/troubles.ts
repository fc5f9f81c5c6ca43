import { type Selectable, sql } from 'kysely'
import { type Cause, CAUSE_CODES } from '../domain/causes.ts'
import {
  decideRecord,
  type RecordChanges,
  type RecordedTrouble,
  type TroubleReport,
} from '../domain/trouble-record.ts'
import type { ObservedTrouble } from '../domain/trouble-facts.ts'
import { OWN_TROUBLE_TTL_MS, type Trouble, TROUBLES } from '../domain/trouble.ts'
import type { Database } from './open.ts'
import { ALIVE_FOR } from './processes.ts'
import type { Schema } from './schema.ts'
import { intervalSql, isTrue, jsonBatch, readOne } from './sql.ts'
import { type Connection, inTransaction, type Tx } from './transaction.ts'

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
  /** It has come back soon after an end that was notified of. */
  readonly isBack: boolean
}

/** What began and ended unseen by a process that knows whom to notify, and longer ago than this, is no news. */
const NEWS_MS = 5 * 60_000

/** What comes back this soon is notified of only if it lasts. */
const BACK_MS = 10 * 60_000

/** Advisory lock: one report after the other, so that one with older facts sees what a newer one has ended. */
const REPORT_LOCK_ID = 4_713_117_286

/**
 * Records which troubles hold: begins those that are new, refreshes those that last, ends those that are over.
 * @param queueNotifications called in the same transaction with what no process has queued yet, in whatever process it was seen.
 *   Null: this process does not know whom to notify.
 */
export async function reportTroubles(
  db: Database,
  report: TroubleReport,
  observed: readonly ObservedTrouble[],
  queueNotifications: QueueNotifications | null = null,
): Promise<TroubleReportResult> {
  return inTransaction(db, async (tx) => {
    await sql`select pg_advisory_xact_lock(${REPORT_LOCK_ID})`.execute(tx)
    const { recorded, ...moment } = await readRecord(tx, observed)
    const changes = decideRecord(recorded, observed, report, moment)
    const stored = await storeChanges(tx, report.reporter, changes)
    if (queueNotifications !== null) await notifyOfTroubles(tx, queueNotifications)
    const isOver = ({ endedAt }: Trouble): boolean => endedAt !== null
    return {
      begun: stored.filter((one) => !isOver(one)),
      ended: stored.filter(isOver),
      disproved: changes.disproved,
    }
  })
}

/** The open troubles, the latest end of each observed one, and which processes are alive. */
async function readRecord(
  tx: Tx,
  observed: readonly ObservedTrouble[],
): Promise<{
  readonly recorded: RecordedTrouble[]
  readonly now: Date
  readonly alive: ReadonlySet<string>
}> {
  const ids = observed.map(({ code, subject }) => ({ code, subject }))
  const { rows } = await sql<TroubleRow>`
    select t.* from fillrate.troubles t where ended_at is null
    union all
    select last.* from jsonb_to_recordset(${jsonBatch(ids)}) as o (code text, subject text)
      cross join lateral (
        select * from fillrate.troubles t where t.code = o.code and t.subject = o.subject and ended_at is not null
         order by ended_at desc limit 1) last`.execute(tx)
  const moment = sql<{ now: Date; alive: string[] }>`
    select clock_timestamp() as now, array(
             select owner from fillrate.processes where seen_at > now() - ${ALIVE_FOR}) as alive`
  const { now, alive } = await readOne(tx, moment)
  return {
    recorded: rows.map((row) => ({ ...toTrouble(row), knownAt: row.known_at, reporter: row.reported_by })),
    now,
    alive: new Set(alive),
  }
}

/** @returns what has begun, and what has ended, in the order of their ids */
async function storeChanges(
  tx: Tx,
  reporter: string,
  { begun, refreshed, ended }: RecordChanges,
): Promise<StoredTrouble[]> {
  if (begun.length + refreshed.length + ended.length === 0) return []
  const { rows } = await sql<TroubleRow>`
    with refreshed as (
      update fillrate.troubles t
         set seen_at = o."seenAt", known_at = o."knownAt", details = o.details, reported_by = ${reporter}
        from jsonb_to_recordset(${jsonBatch(refreshed)})
          as o (id bigint, "seenAt" timestamptz, "knownAt" timestamptz, details jsonb)
       where t.id = o.id
    ), ended as (
      update fillrate.troubles t set ended_at = clock_timestamp(), known_at = e."knownAt"
        from jsonb_to_recordset(${jsonBatch(ended)}) as e (id bigint, "knownAt" timestamptz)
       where t.id = e.id
      returning t.*
    ), begun as (
      insert into fillrate.troubles (code, subject, severity, details, began_at, seen_at, known_at, ended_at, reported_by)
      select code, subject, severity, details, since, "seenAt", "knownAt", "endedAt", ${reporter}
        from jsonb_to_recordset(${jsonBatch(begun.map((one) => ({ ...one, severity: TROUBLES[one.code].severity })))})
          as o (code text, subject text, severity text, details jsonb, since timestamptz, "seenAt" timestamptz,
                "knownAt" timestamptz, "endedAt" timestamptz)
      returning *
    )
    select * from ended union all select * from begun order by id`.execute(tx)
  return rows.map(toTrouble)
}

const UNQUEUED_SQL = sql`(notified = 'none' or (notified = 'begin' and ended_at is not null))`

/** Queues what no process has queued yet. The reports exclude each other, so that none is queued twice. */
async function notifyOfTroubles(tx: Tx, queueNotifications: QueueNotifications): Promise<void> {
  const { rows } = await sql<TroubleRow & { is_news: boolean; is_back: boolean }>`
    with unqueued as (
      select id, notified = 'none' and ended_at < clock_timestamp() - ${intervalSql(NEWS_MS)} as is_old
        from fillrate.troubles where ${UNQUEUED_SQL}
    )
    update fillrate.troubles t set notified = case when t.ended_at is null then 'begin' else 'end' end
      from unqueued u where u.id = t.id
    returning t.*, not coalesce(u.is_old, false) as is_news, exists (
      select from fillrate.troubles former join fillrate.notifications n on n.about = 'trouble ' || former.id
       where former.code = t.code and former.subject = t.subject and n.event = 'trouble_began'
         and former.ended_at between t.began_at - ${intervalSql(BACK_MS)} and t.began_at) as is_back`.execute(
    tx,
  )
  const news = rows
    .filter((row) => row.is_news && Object.hasOwn(TROUBLES, row.code))
    .map((row) => ({ ...toTrouble(row), isBack: row.is_back }))
  if (news.length === 0) return
  await queueNotifications(tx, {
    begun: news.filter(({ endedAt }) => endedAt === null),
    ended: news.filter(({ endedAt }) => endedAt !== null),
  })
}

/** Whether there is a trouble whose begin or end is not queued as a notification. */
export const hasUnqueuedTroubles = (db: Connection): Promise<boolean> =>
  isTrue(db, sql`exists (select from fillrate.troubles where ${UNQUEUED_SQL})`)

type TroubleRow = Selectable<Schema['fillrate.troubles']>

const toTrouble = (row: TroubleRow): StoredTrouble => ({
  id: row.id,
  code: row.code,
  subject: row.subject,
  severity: row.severity,
  since: row.began_at,
  seenAt: row.seen_at,
  endedAt: row.ended_at,
  details: row.details,
  isBack: false,
})

/** The troubles that hold, errors first, then the oldest first. */
export async function listOpenTroubles(db: Connection): Promise<StoredTrouble[]> {
  const open = selectTroubles(db).where('ended_at', 'is', null)
  return toKnownTroubles(await open.orderBy('severity').orderBy('began_at').orderBy('id').execute())
}

/** When causes of others were last proved to be over, in a week. What ended with its process was proved by nothing. */
export async function listEndedCauses(db: Connection): Promise<Cause[]> {
  const { rows } = await sql<Cause>`
    select code, subject, max(ended_at) as "endedAt" from fillrate.troubles
     where began_at > now() - interval '7 days' and code = any(${[...CAUSE_CODES]}::text[])
       and ended_at < seen_at + ${intervalSql(OWN_TROUBLE_TTL_MS)}
     group by code, subject`.execute(db)
  return rows
}

/** The latest troubles, open or over, the latest first. */
export async function listRecentTroubles(db: Connection, limit: number): Promise<StoredTrouble[]> {
  const latest = selectTroubles(db).orderBy('began_at', 'desc').orderBy('id', 'desc').limit(limit)
  return toKnownTroubles(await latest.execute())
}

const selectTroubles = (db: Connection) => db.selectFrom('fillrate.troubles').selectAll()

/** Troubles of a code that this version does not know, written by a newer one, are left out. */
const toKnownTroubles = (rows: readonly TroubleRow[]): StoredTrouble[] =>
  rows.filter((row) => Object.hasOwn(TROUBLES, row.code)).map(toTrouble)
