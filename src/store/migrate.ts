import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { sqlStateOf } from '../util/error-text.ts'
import type { Database } from './open.ts'
import { deleteSilent, listProcesses } from './processes.ts'
import { interruptExpired } from './runs.ts'
import {
  isOlder,
  MigrationBlockedError,
  MigrationDeniedError,
  OldProcessesError,
  refuseEndedSupport,
  supportedFrom,
  UnusableSchemaError,
} from './schema-errors.ts'
import { IS_RUNNING } from './terms.ts'
import { isConflict, type Connection, type Tx } from './transaction.ts'

// src/store and dist/src/store are equally deep below the folder that holds `migrations`.
const FOLDER = new URL('../../migrations/', import.meta.url)

/** Held by the transaction that migrates. A lock of the session would stay behind in that of a pooler. */
const MIGRATION_LOCK_ID = 4_713_117_287
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

export const FIRST_MIGRATION = '0001_schema'
/** The comment on the list of migrations: it was edited in place until 1.0.0, so its name alone does not tell which schema it has made. */
const MADE_BY = 'Fillrate 1.0.0 or later'

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
  for (let blocks = 0; ;) {
    const applied = await readApplied(db, Object.keys(own))
    if (Object.keys(own).every((name) => applied.includes(name))) return []
    try {
      const transaction = db.transaction().setIsolationLevel('read committed')
      return await transaction.execute((tx) => applyPending(tx, own))
    } catch (error) {
      const code = sqlStateOf(error)
      if (code === INSUFFICIENT_PRIVILEGE) throw (await explainDenial(db, error as Error)) ?? error
      if (!isConflict(error)) throw error
      const blockers = await findLockHolders(db)
      options.onBlocked?.(blockers)
      if (performance.now() >= until) throw new MigrationBlockedError(blockers, patienceMs)
      await sleep(Math.min(MAX_RETRY_DELAY_MS, 250 * 2 ** blocks++))
    }
  }
}

async function applyPending(tx: Tx, own: Migrations): Promise<string[]> {
  await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK_ID})`.execute(tx)
  // Another process may have been first.
  const applied = await readApplied(tx, Object.keys(own))
  if (applied.length === 0) await createList(tx)
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx)
  const pending = Object.entries(own)
    .filter(([name]) => !applied.includes(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  for (const [name, migration] of pending) {
    const from = supportedFrom(name)
    if (from !== null) await endOldVersions(tx, name, from)
    await migration.up(tx)
    if (name === FIRST_MIGRATION)
      await sql`comment on table fillrate.migrations is ${sql.lit(MADE_BY)}`.execute(tx)
    await sql`insert into fillrate.migrations (name, timestamp) values (${name}, ${new Date().toISOString()})`.execute(
      tx,
    )
  }
  return pending.map(([name]) => name)
}

/** A role that may create no schema may own one that was created for it. */
async function createList(tx: Tx): Promise<void> {
  const { rows } = await sql<{ exists: boolean }>`
    select to_regnamespace('fillrate') is not null as exists`.execute(tx)
  if (rows[0]?.exists !== true) await sql`create schema fillrate`.execute(tx)
  await sql`
    create table if not exists fillrate.migrations (name varchar(255) primary key, timestamp varchar(255) not null)`.execute(
    tx,
  )
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
async function readApplied(db: Connection, own: readonly string[]): Promise<string[]> {
  // Not `to_regclass`: in a transaction that waited for the lock, a session may still remember that there was no schema.
  const { rows: found } = await sql<{ exists: boolean }>`
    select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'fillrate' and c.relname = 'migrations') as exists`.execute(db)
  if (found[0]?.exists !== true) return []
  const { rows } = await sql<{ name: string }>`select name from fillrate.migrations`.execute(db)
  const names = rows.map((row) => row.name)
  if (names.includes(FIRST_MIGRATION)) {
    const { rows: made } = await sql<{ by: string | null }>`
      select obj_description('fillrate.migrations'::regclass, 'pg_class') as by`.execute(db)
    // A dump may have been restored without comments.
    if ((made[0]?.by ?? MADE_BY) !== MADE_BY) throw UnusableSchemaError.preRelease()
  }
  refuseEndedSupport(names.filter((name) => !own.includes(name)))
  return names
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

/**
 * Ends the support of older versions, until the transaction ends: what they would start waits for it, and is refused then.
 * @param from the oldest version that works with what this migration leaves
 * @throws OldProcessesError while an older one runs
 */
async function endOldVersions(tx: Tx, migration: string, from: string): Promise<void> {
  await sql`lock table fillrate.processes, fillrate.runs in share row exclusive mode`.execute(tx)
  const processes = (await listProcesses(tx)).filter(({ isAlive }) => isAlive)
  const owners = new Set(processes.map(({ owner }) => owner))
  const runs = (await listLivingRuns(tx)).filter((run) => !owners.has(run.owner))
  const old = [
    ...processes
      .filter(({ version }) => isOlder(version, from))
      .map(({ version, role, pid, host }) => `version ${version} (${role}, process ${pid} on ${host})`),
    // Of commands such as undo and remap, which are in no list of processes.
    ...runs
      .filter(({ version }) => version === null || isOlder(version, from))
      .map(
        ({ version, id }) => `${version === null ? 'an older version' : `version ${version}`} (run ${id})`,
      ),
  ]
  if (old.length > 0) throw new OldProcessesError(migration, from, old)
  // A process that was asleep, and not dead, finds that its run has ended, and has to register again.
  await interruptExpired(tx, [])
  await deleteSilent(tx)
}

async function listLivingRuns(tx: Tx) {
  const { rows } = await sql<{ id: number; owner: string; version: string | null }>`
    select id, owner, version from fillrate.runs where ${IS_RUNNING} order by id`.execute(tx)
  return rows
}

/**
 * Explains why Postgres denied a migration to the role: the tables belong to another role, or the role lacks a privilege on
 * the schema. Null where neither is the reason.
 */
async function explainDenial(db: Database, cause: Error): Promise<MigrationDeniedError | null> {
  const { rows } = await sql<SchemaRights>`
    select current_user as role, quote_ident(current_user) as quoted, pg_get_userbyid(n.nspowner) as owner,
           array(select p from unnest('{USAGE,CREATE}'::text[]) p where not has_schema_privilege(n.oid, p)) as missing,
           (select pg_get_userbyid(c.relowner) from pg_class c
             where c.relnamespace = n.oid and c.relname = 'runs' and not pg_has_role(c.relowner, 'usage')) as "tableOwner"
      from pg_namespace n where n.nspname = 'fillrate'`.execute(db)
  const [rights] = rows
  if (rights === undefined) return null
  const { role, quoted, owner, tableOwner } = rights
  if (tableOwner !== null) return MigrationDeniedError.notOwner(role, tableOwner, cause)
  if (rights.missing.length === 0) return null
  return MigrationDeniedError.lacks(rights.missing.join(', '), { role, quoted, owner }, cause)
}

interface SchemaRights {
  readonly role: string
  /** The role's name as SQL takes it. */
  readonly quoted: string
  readonly owner: string
  readonly missing: readonly string[]
  /** Null where there are no tables yet, or the role may act as their owner. */
  readonly tableOwner: string | null
}

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
