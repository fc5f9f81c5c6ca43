import { sql } from 'kysely'
import { Row } from '../domain/row.ts'
import { unindexed } from './batch.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

const waiting = sql.lit(Row.waiting)

/** Whether any row of a run waits: cheap enough to ask often. */
export async function anyWaiting(db: Connection, run: number): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from fillrate.rows where run = ${run} and state = ${waiting}) as any`.execute(db)
  return rows[0]?.any ?? false
}

/** Whether any row of a run is to be picked again: cheap enough to ask often. */
export async function anySentBack(db: Connection, run: number, sources: readonly string[]): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from fillrate.rows
                    where source = any(${[...sources]}::text[]) and state = ${waiting} and lookup is null
                      and ${unindexed(sql`run = ${run}`)}) as any`.execute(db)
  return rows[0]?.any ?? false
}

/** Rows of a run that wait. */
export async function countWaiting(db: Connection, run: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from fillrate.rows where run = ${run} and state = ${waiting}`.execute(db)
  return rows[0]?.count ?? 0
}

export interface Waiting {
  /** Rows of this run. */
  readonly mine: number
  /** Of these, those whose lookup is with a job. */
  readonly forDelivery: number
  /** Of these, those whose lookup belongs to a run that is no more. */
  readonly abandoned: number
  /** Rows of other live runs in the same sources. */
  readonly others: number
}

/** What the waiting rows of some sources wait for. Reads them all: not to be asked often. */
export async function whatWaits(
  db: Connection,
  run: number,
  sources: readonly string[],
  live: readonly number[],
): Promise<Waiting> {
  const others = live.filter((id) => id !== run)
  const { rows } = await sql<Waiting>`
    select count(*) filter (where r.run = ${run}) as mine,
           count(*) filter (where r.run = ${run} and l.state = 'submitted') as "forDelivery",
           count(*) filter (where r.run = ${run} and l.state = 'pending'
                              and (l.run is null or l.run <> all(${[...live]}::bigint[]))) as abandoned,
           count(*) filter (where r.run = any(${others}::bigint[])) as others
      from fillrate.rows r left join fillrate.lookups l on l.id = r.lookup
     where r.source = any(${[...sources]}::text[]) and r.state = ${waiting}`.execute(db)
  return rows[0] ?? { mine: 0, forDelivery: 0, abandoned: 0, others: 0 }
}
