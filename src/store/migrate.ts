import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Migrator, type Migration } from 'kysely/migration'
import type { Database } from './open.ts'

// src/store and dist/src/store are equally deep below the folder that holds `migrations`.
const FOLDER = new URL('../../migrations/', import.meta.url)

/** Two processes that create the schema at the same instant: the loser sees one of these, and finds it made when it looks again. */
const RACE_LOST = new Set(['23505', '42P06', '42P07', '42710', 'XX000', '40P01'])

/**
 * Creates or upgrades the `fillrate` schema; a second process waits for the first. Locks no table of the user's.
 * @returns the names of the migrations that were applied, in order; empty when there was nothing to do
 */
export async function migrate(db: Database): Promise<string[]> {
  for (let attempt = 1; ; attempt++) {
    const { error, results } = await migrator(db).migrateToLatest()
    if (error === undefined) return (results ?? []).map((result) => result.migrationName)
    const code = (error as { code?: string }).code
    if (attempt === 5 || !code || !RACE_LOST.has(code)) throw error
    await sleep(100 * attempt)
  }
}

/** The names of the migrations that the database still lacks. Reads only. */
export async function pendingMigrations(db: Database): Promise<string[]> {
  const all = await migrator(db).getMigrations()
  return all.filter((migration) => migration.executedAt === undefined).map((migration) => migration.name)
}

function migrator(db: Database): Migrator {
  return new Migrator({
    db,
    migrationTableSchema: 'fillrate',
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    provider: { getMigrations: readMigrations },
  })
}

async function readMigrations(): Promise<Record<string, Migration>> {
  const files = (await readdir(fileURLToPath(FOLDER))).filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file))
  const entries = await Promise.all(
    files.map(async (file) => [
      file.replace(/\.(ts|js)$/, ''),
      (await import(new URL(file, FOLDER).href)) as Migration,
    ]),
  )
  return Object.fromEntries(entries) as Record<string, Migration>
}
