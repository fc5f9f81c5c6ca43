import { sql } from 'kysely'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

export interface FollowedKey {
  readonly id: number
  readonly source: string
  readonly key: string
}

/**
 * Changed keys, oldest first. Those that a user's transaction is just changing again are left out, so that nobody
 * waits: the lock is gone with the statement. Not in a transaction: a user who changes such a row would wait for it.
 */
export async function next(db: Database, sources: readonly string[], limit: number): Promise<FollowedKey[]> {
  const { rows } = await sql<FollowedKey>`
    select id, source, key from fillrate.followed
     where key is not null and source = any(${[...sources]}::text[])
     order by id limit ${limit} for update skip locked`.execute(db)
  return rows
}

/** One statement that changed many rows: a part of its keys. */
export interface FollowedMany {
  readonly id: number
  readonly source: string
  readonly keys: string[]
  readonly total: number
}

/** The oldest of the statements that changed many rows, with the keys from `from` on. Null: there is none. */
export async function nextMany(
  db: Database,
  sources: readonly string[],
  from: (id: number) => number,
  limit: number,
): Promise<FollowedMany | null> {
  const { rows: oldest } = await sql<{ id: number }>`
    select id from fillrate.followed
     where keys is not null and source = any(${[...sources]}::text[])
     order by id limit 1`.execute(db)
  const [found] = oldest
  if (!found) return null
  const start = from(found.id)
  const { rows } = await sql<FollowedMany>`
    select id, source, keys[${start + 1}::integer:${start + limit}::integer] as keys, cardinality(keys) as total
      from fillrate.followed where id = ${found.id}`.execute(db)
  return rows[0] ?? null
}

/** Takes changes off the list, except those that were made again since they were read: they have another id. */
export async function done(db: Database, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    delete from fillrate.followed
     where id in (select id from fillrate.followed where id = any(${[...ids]}::bigint[])
                     for update skip locked)`.execute(db)
}

/**
 * Puts back on the list what runs that are no more had taken off it and left waiting. Only what followed the
 * database: what a nightly run left behind is the next one's.
 * @returns how many
 */
export async function putBack(db: Database, sources: readonly string[], limit: number): Promise<number> {
  const result = await sql`
    insert into fillrate.followed (source, key)
    select r.source, r.key from fillrate.runs u join fillrate.rows r on r.run = u.id
     where u.options ->> 'follow' = 'true' and (u.state <> 'running' or u.leased_until < now())
       and u.started_at > now() - interval '7 days'
       and r.state = 'waiting' and r.source = any(${[...sources]}::text[])
       and not exists (select from fillrate.lookups l where l.id = r.lookup and l.state = 'submitted')
     limit ${limit}
    on conflict (source, key) where key is not null do nothing`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}

/** Lookups that following has spent in the last 24 hours. */
export async function spentInADay(db: Connection): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent), 0)::bigint as spent from fillrate.runs
     where started_at > now() - interval '24 hours' and options ->> 'follow' = 'true'`.execute(db)
  return rows[0]?.spent ?? 0
}

/** Whether any lookup of a run can be asked now. */
export async function anyToAsk(db: Connection, run: number): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from fillrate.lookups
                    where run = ${run} and state = 'pending' and (kind <> 'email' or single)
                      and (not_before is null or not_before <= now()))
        or exists (select from fillrate.lookups
                    where run = ${run} and state = 'pending' and kind = 'email' and not single
                      and (not_before is null or not_before <= now())) as any`.execute(db)
  return rows[0]?.any ?? false
}
