import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createHash } from 'node:crypto'
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { readVersion } from '../util/version.ts'
import type { Database } from './open.ts'
import { isOlder, refuseOldProcesses, supportedFrom } from './old-versions.ts'
import { readOne } from './sql.ts'
import { MigrationBlockedError, MigrationDeniedError, UnusableSchemaError } from './schema-errors.ts'

// src/store and dist/src/store are equally deep below the folder that holds `migrations`.
const FOLDER = new URL('../../migrations/', import.meta.url)

/** When two processes create the schema at once, one fails with one of these codes. On its retry the schema exists. */
const CREATE_RACE_CODES = new Set(['23505', '42P06', '42P07', '42710', 'XX000', '40P01'])
/** A newer version applied its migrations after we read the list and before we had the lock. */
const OVERTAKEN_ERROR = /^corrupted migrations: previously executed migration/
const LOCK_NOT_AVAILABLE = '55P03'
const INSUFFICIENT_PRIVILEGE = '42501'

/** While a migration waits for a table lock, every later statement on the table waits behind it. Milliseconds. */
const LOCK_TIMEOUT_MS = 1_000
const MAX_RETRY_DELAY_MS = 5_000
const DEFAULT_PATIENCE_MS = 120_000

interface MigrateOptions {
  /** Called on each attempt that fails because other sessions hold a table that a migration has to lock. */
  readonly onBlocked?: (blockers: readonly string[]) => void
  /** How long to retry while other sessions hold a table, in milliseconds. Default: two minutes. */
  readonly patienceMs?: number
  /** Migrations by name. Default: those of this version. */
  readonly migrations?: () => Promise<Migrations>
}

type Migrations = Readonly<Record<string, Migration>>

/** The first migration of the versions before the first release, whose schema has other names. */
const PRE_RELEASE_MIGRATION = '0001_foundation'

/** Edited in place until the first release, so its name does not tell which schema it has made: its digest does. */
const FIRST_MIGRATION = '0001_schema'

/**
 * Creates or upgrades the `fillrate` schema; a second process waits for the first. Locks no user table, and waits for a
 * lock on its own tables one second at a time. Migrations of a newer version are left in place: each version only adds,
 * so this one works beside it.
 * @returns the names of the applied migrations, in order; empty when the schema was up to date
 * @throws MigrationBlockedError, MigrationDeniedError, OldProcessesError, UnusableSchemaError
 */
export async function migrate(db: Database, options: MigrateOptions = {}): Promise<string[]> {
  const { migrations = readMigrations, patienceMs = DEFAULT_PATIENCE_MS } = options
  const own = await migrations()
  const until = performance.now() + patienceMs
  for (let races = 0, blocks = 0; ;) {
    const applied = await readApplied(db, Object.keys(own))
    if (Object.keys(own).every((name) => applied.includes(name))) return []
    const { error, results } = await createMigrator(db, withNewer(own, applied)).migrateToLatest()
    if (error === undefined) return (results ?? []).map((result) => result.migrationName)
    const { code = '', message } = error as { code?: string; message: string }
    if (code === LOCK_NOT_AVAILABLE) {
      const blockers = await findLockHolders(db)
      options.onBlocked?.(blockers)
      if (performance.now() >= until) throw new MigrationBlockedError(blockers, patienceMs)
      await sleep(Math.min(MAX_RETRY_DELAY_MS, 250 * 2 ** blocks++))
    } else if (code === INSUFFICIENT_PRIVILEGE && applied.length > 0) {
      const { role, owner } = await readOwner(db)
      throw new MigrationDeniedError(role, owner, error as Error)
    } else {
      if (++races === 5 || !(CREATE_RACE_CODES.has(code) || OVERTAKEN_ERROR.test(message))) throw error
      await sleep(100 * races)
    }
  }
}

/**
 * The names of this version's migrations that have not been applied. Reads only.
 * @throws UnusableSchemaError
 */
export async function pendingMigrations(db: Database): Promise<string[]> {
  const own = await listMigrations()
  const applied = await readApplied(db, own)
  return own.filter((name) => !applied.includes(name)).toSorted()
}

/** The names of applied migrations, including those of a newer version that this one works beside. */
async function readApplied(db: Database, own: readonly string[]): Promise<string[]> {
  const { rows: found } = await sql<{ exists: boolean }>`
    select to_regclass('fillrate.migrations') is not null as exists`.execute(db)
  if (found[0]?.exists !== true) return []
  const { rows } = await sql<{ name: string }>`select name from fillrate.migrations`.execute(db)
  const names = rows.map((row) => row.name)
  if (names.includes(PRE_RELEASE_MIGRATION)) throw UnusableSchemaError.preRelease()
  if (names.includes(FIRST_MIGRATION)) {
    const { rows: made } = await sql<{ digest: string | null }>`
      select obj_description('fillrate.migrations'::regclass, 'pg_class') as digest`.execute(db)
    // A dump may have been restored without comments.
    const digest = made[0]?.digest ?? null
    if (digest !== null && digest !== (await readOwnDigest())) throw UnusableSchemaError.preRelease()
  }
  for (const name of names) {
    const from = supportedFrom(name)
    if (from !== null && !own.includes(name) && isOlder(readVersion(), from))
      throw UnusableSchemaError.newer(name, from)
  }
  return names
}

let ownDigest: Promise<string> | undefined

/** Read once in a process: its readiness is checked every few seconds. */
const readOwnDigest = (): Promise<string> =>
  (ownDigest ??= readMigrations().then((own) => digestStatements(own[FIRST_MIGRATION] as Migration)))

/** Identifies what a migration makes, by its statements. Runs none of them. */
async function digestStatements(migration: Migration): Promise<string> {
  const digest = createHash('sha256')
  const nowhere = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => void digest.update(query.sql),
  })
  await migration.up(nowhere)
  return digest.digest('hex')
}

function createMigrator(db: Database, migrations: Migrations): Migrator {
  return new Migrator({
    db,
    migrationTableSchema: 'fillrate',
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    // A newer version may have applied a later migration; ours that come before it must still be applied.
    allowUnorderedMigrations: true,
    provider: { getMigrations: async () => migrations },
  })
}

/** Kysely requires every applied migration to be known; for those of a newer version the name is enough. */
function withNewer(own: Migrations, applied: readonly string[]): Migrations {
  const newer = applied.filter((name) => own[name] === undefined)
  return {
    ...Object.fromEntries(newer.map((name) => [name, { up: async () => {} }])),
    ...Object.fromEntries(Object.entries(own).map(([name, migration]) => [name, prepare(name, migration)])),
  }
}

const prepare = (name: string, migration: Migration): Migration => ({
  up: async (tx) => {
    await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx)
    const from = supportedFrom(name)
    if (from !== null) await refuseOldProcesses(tx, name, from)
    await migration.up(tx)
    if (name === FIRST_MIGRATION)
      await sql`comment on table fillrate.migrations is ${sql.lit(await digestStatements(migration))}`.execute(
        tx,
      )
  },
})

const readOwner = (db: Database) =>
  readOne(
    db,
    sql<{ role: string; owner: string }>`
      select current_user as role, pg_get_userbyid(relowner) as owner from pg_class where oid = 'fillrate.runs'::regclass`,
  )

/** Sessions that hold a lock on a table of the schema, oldest transaction first. */
async function findLockHolders(db: Database): Promise<string[]> {
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

async function listMigrationFiles(): Promise<string[]> {
  return (await readdir(fileURLToPath(FOLDER))).filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file))
}

const toMigrationName = (file: string): string => file.replace(/\.(ts|js)$/, '')

/** Their names, without loading them. */
async function listMigrations(): Promise<string[]> {
  return (await listMigrationFiles()).map(toMigrationName)
}

async function readMigrations(): Promise<Migrations> {
  const entries = await Promise.all(
    (await listMigrationFiles()).map(async (file) => [
      toMigrationName(file),
      (await import(new URL(file, FOLDER).href)) as Migration,
    ]),
  )
  return Object.fromEntries(entries) as Record<string, Migration>
}
