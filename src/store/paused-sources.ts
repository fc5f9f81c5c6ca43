import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Schema } from './schema.ts'
import { intervalSql } from './sql.ts'
import type { Connection } from './transaction.ts'

/** A source that no run picks from until it is resumed. */
export type PausedSource = Selectable<Schema['fillrate.paused_sources']>

/** SQL: a pause that has not ended by itself. */
export const isPauseActiveSql = (pause: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql`(${pause}.resume_at is null or ${pause}.resume_at > now())`

/** All paused sources, in order of their names. */
export async function listPaused(db: Connection): Promise<PausedSource[]> {
  const paused = db.selectFrom('fillrate.paused_sources as p').where(isPauseActiveSql(sql`p`))
  return paused.selectAll().orderBy('source').execute()
}

/** Which of these sources are paused, in order. */
export async function filterPaused(db: Connection, sources: readonly string[]): Promise<string[]> {
  const paused = await listPaused(db)
  return paused.map(({ source }) => source).filter((source) => sources.includes(source))
}

interface PauseDetails {
  readonly by: string
  readonly reason: string | null
  /** How long it lasts, in milliseconds; null: until the source is resumed. */
  readonly forMs: number | null
}

/**
 * Pauses sources. The last pause counts: it replaces the reason and the end of one before.
 * @returns those that were not paused before
 */
export async function pauseSources(
  db: Connection,
  sources: readonly string[],
  { by, reason, forMs }: PauseDetails,
): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with before as (
      select source from fillrate.paused_sources p
       where source = any(${[...sources]}::text[]) and ${isPauseActiveSql(sql`p`)}
    ), paused as (
      insert into fillrate.paused_sources as p (source, paused_by, reason, resume_at)
      select source, ${by}, ${reason}, ${forMs === null ? sql`null` : sql`now() + ${intervalSql(forMs)}`}
        from unnest(${[...new Set(sources)]}::text[]) as source
      on conflict (source) do update
         set paused_at = now(), paused_by = excluded.paused_by, reason = excluded.reason,
             resume_at = excluded.resume_at
      returning source
    )
    select source from paused where source not in (select source from before)`.execute(db)
  return rows.map((row) => row.source)
}

/** Resumes sources. @returns those that were paused before */
export async function resumeSources(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with resumed as (
      delete from fillrate.paused_sources p where source = any(${[...sources]}::text[])
      returning source, ${isPauseActiveSql(sql`p`)} as was_paused
    )
    select source from resumed where was_paused`.execute(db)
  return rows.map((row) => row.source)
}
