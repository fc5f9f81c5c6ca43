import { sql } from 'kysely'
import type { Connection } from './transaction.ts'

/** A source that no run picks from until it is resumed. */
export interface PausedSource {
  readonly source: string
  readonly paused_at: Date
  /** Where the request came from: `the command line`, `the dashboard`. */
  readonly paused_by: string
}

/** All paused sources, in order of their names. */
export async function listPaused(db: Connection): Promise<PausedSource[]> {
  const { rows } = await sql<PausedSource>`
    select source, paused_at, paused_by from fillrate.paused_sources order by source`.execute(db)
  return rows
}

/** Which of these sources are paused, in order. */
export async function filterPaused(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    select source from fillrate.paused_sources where source = any(${[...sources]}::text[]) order by source`.execute(
    db,
  )
  return rows.map((row) => row.source)
}

/** Pauses sources. @returns those that were not paused before */
export async function pauseSources(
  db: Connection,
  sources: readonly string[],
  by: string,
): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    insert into fillrate.paused_sources (source, paused_by) select unnest(${[...sources]}::text[]), ${by}
    on conflict (source) do nothing returning source`.execute(db)
  return rows.map((row) => row.source)
}

/** Resumes sources. @returns those that were paused before */
export async function resumeSources(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    delete from fillrate.paused_sources where source = any(${[...sources]}::text[]) returning source`.execute(
    db,
  )
  return rows.map((row) => row.source)
}
