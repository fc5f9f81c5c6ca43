import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { Migrator, type Migration } from 'kysely/migration'
import type { Database } from './open.ts'

// src/store and dist/src/store are equally deep below the folder that holds `migrations`.
const FOLDER = new URL('../../migrations/', import.meta.url)

/** Two processes that create the schema at the same instant: the loser sees one of these, and finds it made when it looks again. */
const RACE_LOST = new Set(['23505', '42P06', '42P07', '42710', 'XX000', '40P01'])
/** A newer version has applied its own between our look and our lock. */
const OVERTAKEN = /^corrupted migrations: previously executed migration/
const LOCK_NOT_AVAILABLE = '55P03'

/** While a migration waits for a table, every later statement on it waits behind the migration. In milliseconds. */
const LOCK_TIMEOUT_MS = 1_000
const LONGEST_PAUSE_MS = 5_000
const PATIENCE_MS = 120_000

export interface MigrateOptions {
  /** Called each time that others hold a table which a migration has to lock. */
  readonly onBlocked?: (blockers: readonly string[]) => void
  /** How long to try again while others hold a table, in milliseconds. Default: two minutes. */
  readonly patienceMs?: number
  /** By name. Default: those of this version. */
  readonly migrations?: () => Promise<Migrations>
}

export type Migrations = Readonly<Record<string, Migration>>

/** Others hold a table of the schema that a migration has to lock. Nothing was changed. */
export class MigrationBlocked extends Error {
  override readonly name = 'MigrationBlocked'

  constructor(blockers: readonly string[], patienceMs: number) {
    const by = blockers.length === 0 ? 'sessions that have ended meanwhile' : blockers.join('; ')
    super(
      `the schema "fillrate" could not be upgraded for ${patienceMs / 1_000} s, because its tables are held by ${by}. Nothing was changed. Wait until these transactions have ended, or end them with pg_terminate_backend, and run \`fillrate migrate\` again`,
    )
  }
}

/** The first migration of the versions before the first release, whose schema has other names. */
const PRE_RELEASE_MIGRATION = '0001_foundation'

/** The schema was created by a version before the first release. No migration leads from it to this version's. */
export class PreReleaseSchemaError extends Error {
  override readonly name = 'PreReleaseSchemaError'

  readonly todo =
    'Keep a copy if you need its records or its change history (`pg_dump --schema=fillrate`), run `drop schema fillrate cascade` in the database, then `fillrate migrate`, and `fillrate follow install SOURCE` for each source with triggers'

  constructor() {
    super(
      'the schema "fillrate" was created by a version before the first release, and cannot be upgraded. Nothing was changed',
    )
    this.message += `. ${this.todo}`
  }
}

/**
 * Creates or upgrades the `fillrate` schema; a second process waits for the first. Locks no table of the user's, and
 * waits for a lock on one of its own a second at a time. What a newer version has applied is left as it is: each version
 * only adds, so that this one works beside it.
 * @returns the names of the migrations that were applied, in order; empty when there was nothing to do
 * @throws MigrationBlocked, PreReleaseSchemaError
 */
export async function migrate(db: Database, options: MigrateOptions = {}): Promise<string[]> {
  const { migrations = readMigrations, patienceMs = PATIENCE_MS } = options
  const own = await migrations()
  const until = performance.now() + patienceMs
  for (let raced = 0, blocked = 0; ;) {
    const applied = await appliedMigrations(db)
    if (Object.keys(own).every((name) => applied.includes(name))) return []
    const { error, results } = await migrator(db, withNewer(own, applied)).migrateToLatest()
    if (error === undefined) return (results ?? []).map((result) => result.migrationName)
    const { code = '', message } = error as { code?: string; message: string }
    if (code === LOCK_NOT_AVAILABLE) {
      const blockers = await holders(db)
      options.onBlocked?.(blockers)
      if (performance.now() >= until) throw new MigrationBlocked(blockers, patienceMs)
      await sleep(Math.min(LONGEST_PAUSE_MS, 250 * 2 ** blocked++))
    } else {
      if (++raced === 5 || !(RACE_LOST.has(code) || OVERTAKEN.test(message))) throw error
      await sleep(100 * raced)
    }
  }
}

/**
 * The names of this version's migrations that the database still lacks. Reads only.
 * @throws PreReleaseSchemaError
 */
export async function pendingMigrations(db: Database): Promise<string[]> {
  const applied = await appliedMigrations(db)
  return Object.keys(await readMigrations())
    .filter((name) => !applied.includes(name))
    .toSorted()
}

/** Includes those of a newer version. */
async function appliedMigrations(db: Database): Promise<string[]> {
  const { rows: found } = await sql<{ there: boolean }>`
    select to_regclass('fillrate.migrations') is not null as there`.execute(db)
  if (found[0]?.there !== true) return []
  const { rows } = await sql<{ name: string }>`select name from fillrate.migrations`.execute(db)
  const names = rows.map((row) => row.name)
  if (names.includes(PRE_RELEASE_MIGRATION)) throw new PreReleaseSchemaError()
  return names
}

function migrator(db: Database, migrations: Migrations): Migrator {
  return new Migrator({
    db,
    migrationTableSchema: 'fillrate',
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    // A newer version may have applied a later one, and this one still has to apply what comes before it.
    allowUnorderedMigrations: true,
    provider: { getMigrations: async () => migrations },
  })
}

/** Kysely demands each migration that was applied: of those of a newer version the name is enough. */
function withNewer(own: Migrations, applied: readonly string[]): Migrations {
  const newer = applied.filter((name) => own[name] === undefined)
  return {
    ...Object.fromEntries(newer.map((name) => [name, { up: async () => {} }])),
    ...Object.fromEntries(Object.entries(own).map(([name, migration]) => [name, impatient(migration)])),
  }
}

const impatient = (migration: Migration): Migration => ({
  up: async (tx) => {
    await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx)
    await migration.up(tx)
  },
})

/** Who has a lock on a table of the schema, those first that have had theirs for longest. */
async function holders(db: Database): Promise<string[]> {
  const { rows } = await sql<{ pid: number; name: string; role: string; seconds: number; tables: string[] }>`
    select a.pid, coalesce(nullif(a.application_name, ''), 'unnamed') as name, coalesce(a.usename, '') as role,
           coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::int as seconds,
           array_agg(distinct c.relname::text) as tables
      from pg_locks l join pg_stat_activity a on a.pid = l.pid join pg_class c on c.oid = l.relation
     where l.granted and c.relnamespace = to_regnamespace('fillrate') and l.pid <> pg_backend_pid()
       and l.database = (select oid from pg_database where datname = current_database())
     group by a.pid, a.application_name, a.usename, a.xact_start
     order by a.xact_start nulls last limit 3`.execute(db)
  return rows.map(
    ({ pid, name, role, seconds, tables }) =>
      `process ${pid} of Postgres (${name}, role ${role}, in a transaction for ${seconds} s: ${tables.join(', ')})`,
  )
}

async function readMigrations(): Promise<Migrations> {
  const files = (await readdir(fileURLToPath(FOLDER))).filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file))
  const entries = await Promise.all(
    files.map(async (file) => [
      file.replace(/\.(ts|js)$/, ''),
      (await import(new URL(file, FOLDER).href)) as Migration,
    ]),
  )
  return Object.fromEntries(entries) as Record<string, Migration>
}
