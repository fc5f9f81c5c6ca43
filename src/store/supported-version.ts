import { sql } from 'kysely'
import { readVersion } from '../util/version.ts'
import type { Database } from './open.ts'
import { UnusableSchemaError } from './schema-errors.ts'
import { inTransaction, type Tx } from './transaction.ts'

/**
 * The oldest version that works with what a migration leaves. The name says it, because older programs know nothing else
 * of the migration: `0003_from_1_2_no_scope` requires version 1.2. Null: it only adds.
 */
export function supportedFrom(migration: string): string | null {
  const [, major, minor] = /^\d{4}_from_(\d+)_(\d+)_/.exec(migration) ?? []
  return major === undefined ? null : `${major}.${minor}`
}

export function isOlder(version: string, from: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [fromMajor = 0, fromMinor = 0] = from.split('.').map(Number)
  return major < fromMajor || (major === fromMajor && minor < fromMinor)
}

/** @throws UnusableSchemaError if one of these migrations has ended the support of this version */
export function refuseEndedSupport(migrations: readonly string[]): void {
  for (const name of migrations) {
    const from = supportedFrom(name)
    if (from !== null && isOlder(readVersion(), from)) throw UnusableSchemaError.newer(name, from)
  }
}

/**
 * Stores that a process or a run lives. A migration that ends the support of this version either sees it and is refused, or
 * is seen here: it locks the tables of both, so that `store` waits for its end.
 * @throws UnusableSchemaError, and nothing is stored
 */
export const whileSupported = <T>(db: Database, store: (tx: Tx) => Promise<T>): Promise<T> =>
  inTransaction(db, async (tx) => {
    const stored = await store(tx)
    const { rows } = await sql<{ name: string }>`select name from fillrate.migrations`.execute(tx)
    refuseEndedSupport(rows.map(({ name }) => name))
    return stored
  })
