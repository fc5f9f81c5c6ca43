import { sql } from 'kysely'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

/** A source that no run picks from until somebody resumes it. */
export interface Pause {
  readonly source: string
  readonly paused_at: Date
  /** Where it was asked for: `the command line`, `the dashboard`. */
  readonly paused_by: string
}

export async function list(db: Connection): Promise<Pause[]> {
  const { rows } = await sql<Pause>`
    select source, paused_at, paused_by from fillrate.paused_sources order by source`.execute(db)
  return rows
}

/** Which of these sources are paused. */
export async function among(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    select source from fillrate.paused_sources where source = any(${[...sources]}::text[]) order by source`.execute(
    db,
  )
  return rows.map((row) => row.source)
}

/** @returns the sources that were not paused before */
export async function pause(db: Connection, sources: readonly string[], by: string): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    insert into fillrate.paused_sources (source, paused_by) select unnest(${[...sources]}::text[]), ${by}
    on conflict (source) do nothing returning source`.execute(db)
  return rows.map((row) => row.source)
}

/** @returns the sources that were paused before */
export async function resume(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    delete from fillrate.paused_sources where source = any(${[...sources]}::text[]) returning source`.execute(
    db,
  )
  return rows.map((row) => row.source)
}
