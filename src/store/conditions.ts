import { type RawBuilder, sql } from 'kysely'
import {
  type Condition,
  CONDITION_KINDS,
  type ConditionDetails,
  type ConditionKind,
} from '../domain/condition.ts'
import type { NotableCondition } from '../domain/notification.ts'
import { type Observer, shownSql } from './condition-facts.ts'
import type { Database } from './open.ts'
import { intervalSql } from './sql.ts'
import { type Connection, inTransaction, type Tx } from './transaction.ts'

/** A condition as it is stored, open or over. */
export interface StoredCondition extends NotableCondition {
  /** When a process last saw that it holds. */
  readonly seenAt: Date
}

/** SQL: a stored condition `c`. */
const STORED = sql`
  c.id, c.kind, c.service, c.source, c.details, c.began_at as since, c.seen_at as "seenAt", c.ended_at as "endedAt",
  c.accepted_by as "acceptedBy"`

/** The conditions that hold now, in the order of their kinds, then the oldest first. They are right even where no process records them. */
export async function readConditions(db: Database, observer: Observer): Promise<Condition[]> {
  const { rows } = await sql<Condition>`
    ${await shownSql(db, observer)}
    select kind, service, source, since, details from shown
     order by array_position(${[...CONDITION_KINDS]}::text[], kind), since, service, source`.execute(db)
  return rows.filter(isKnown)
}

/** One of a version that this one does not know. */
const isKnown = ({ kind }: { readonly kind: string }): boolean =>
  (CONDITION_KINDS as readonly string[]).includes(kind)

/** Advisory lock: one record after the other, each on facts that are read after the one before it. */
const RECORD_LOCK_ID = 4_713_117_286

/**
 * Records which conditions hold: begins new ones, and ends others. Another process that does so now is enough.
 * @returns the conditions begun or ended here: no other process gets them
 */
export async function recordConditions(db: Database, observer: Observer): Promise<StoredCondition[]> {
  return inTransaction(db, async (tx) => {
    const { rows: locks } = await sql<{
      isOurs: boolean
    }>`select pg_try_advisory_xact_lock(${RECORD_LOCK_ID}) as "isOurs"`.execute(tx)
    if (locks[0]?.isOurs !== true) return []
    const { rows } = await sql<StoredCondition>`
      ${await shownSql(tx, observer)}, ended as (
        update fillrate.conditions c set ended_at = now()
         where ended_at is null and not exists (select from shown where id = c.id)
        returning c.*
      ), seen as (
        update fillrate.conditions c set seen_at = now(), details = s.details
          from shown s
         where s.id = c.id and s.is_observed and c.seen_at < now() - interval '1 second'
      ), begun as (
        insert into fillrate.conditions (kind, service, source, details, began_at, seen_at)
        select kind, service, source, details, since, now() from shown where id is null
        returning *
      )
      select ${STORED} from (select * from ended union all select * from begun) c
       order by id`.execute(tx)
    return rows.filter(isKnown)
  })
}

/**
 * Begins the condition of a source, refreshes it, or ends it, for a part of the program that finds it out by itself, and that says when
 * it is over, whichever process began it.
 * @param details null: it does not hold
 * @returns it, if it has begun or ended
 */
export async function reportCondition(
  db: Database,
  kind: ConditionKind,
  source: string,
  details: ConditionDetails | null,
): Promise<StoredCondition[]> {
  const isSame = sql`kind = ${kind} and source = ${source} and ended_at is null`
  if (details === null) {
    const { rows } = await sql<StoredCondition>`
      update fillrate.conditions c set ended_at = now() where ${isSame} and is_reported
      returning ${STORED}`.execute(db)
    return rows.filter(isKnown)
  }
  const { rows } = await sql<StoredCondition & { isNew: boolean }>`
    insert into fillrate.conditions as c (kind, source, details, began_at, seen_at, is_reported)
    values (${kind}, ${source}, ${JSON.stringify(details)}::jsonb, now(), now(), true)
    on conflict (kind, coalesce(service, ''), coalesce(source, '')) where ended_at is null
      do update set seen_at = now(), details = excluded.details, is_reported = true
    returning ${STORED}, c.xmax = 0 as "isNew"`.execute(db)
  return rows.flatMap(({ isNew, ...condition }) => (isNew ? condition : []))
}

/** Processes notice an outage at different moments, and wait for one another to store it. Another cause so soon is another outage. */
const SAME_OUTAGE_MS = 5_000

/**
 * Stores that Postgres was away, which could not be stored while it was. Of several processes that were without it, one stores it. It is
 * over with the next record, unless a process is refused still.
 * @param acceptedBy the targets that were notified of it meanwhile: `began KEY`
 */
export async function recordOutage(
  db: Database,
  {
    forMs,
    details,
    acceptedBy,
  }: { readonly forMs: number; readonly details: ConditionDetails; readonly acceptedBy: readonly string[] },
): Promise<void> {
  await inTransaction(db, async (tx: Tx) => {
    await sql`select pg_advisory_xact_lock(${RECORD_LOCK_ID})`.execute(tx)
    const known = await sql`
      update fillrate.conditions
         set accepted_by = accepted_by || ${[...acceptedBy]}::text[]
       where id = (
               select max(id)
                 from fillrate.conditions
                where kind = 'database_away'
                  and coalesce(ended_at, now()) > now() - ${intervalSql(forMs)} - case
                        when details ->> 'sqlstate' is not distinct from ${details.sqlstate ?? null}::text
                        then ${intervalSql(SAME_OUTAGE_MS)}
                        else interval '0'
                      end
             )`.execute(tx)
    if ((known.numAffectedRows ?? 0n) > 0n) return
    await sql`
      insert into fillrate.conditions (kind, details, began_at, seen_at, accepted_by)
      values ('database_away', ${JSON.stringify(details)}::jsonb, now() - ${intervalSql(forMs)}, now(), ${[...acceptedBy]})`.execute(
      tx,
    )
  })
}

/** The conditions of which a target may have to be notified: open, or over since a day at most, the oldest first. */
export const listNotable = (db: Connection): Promise<StoredCondition[]> =>
  listStored(db, sql`where ended_at is null or ended_at > now() - interval '1 day' order by id`)

/** The conditions that are recorded as open. */
export const listOpenConditions = (db: Connection): Promise<StoredCondition[]> =>
  listStored(db, sql`where ended_at is null order by id`)

/** The latest conditions, open or over, the latest first. */
export const listRecentConditions = (db: Connection, limit: number): Promise<StoredCondition[]> =>
  listStored(db, sql`order by began_at desc, id desc limit ${limit}`)

async function listStored(db: Connection, which: RawBuilder<unknown>): Promise<StoredCondition[]> {
  const { rows } = await sql<StoredCondition>`
    select ${STORED} from fillrate.conditions c ${which}`.execute(db)
  return rows.filter(isKnown)
}

/** Notes that targets have accepted a notification of a condition. */
export async function noteAccepted(db: Database, id: number, acceptedBy: readonly string[]): Promise<void> {
  await sql`update fillrate.conditions set accepted_by = accepted_by || ${[...acceptedBy]}::text[] where id = ${id}`.execute(
    db,
  )
}
