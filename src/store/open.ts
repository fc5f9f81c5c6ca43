import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Schema } from './schema.ts'

export type Database = Kysely<Schema>

export interface OpenOptions {
  readonly url: string
  /** Connections at the most. */
  readonly max?: number
  /** Shown in pg_stat_activity. */
  readonly name?: string
  /** Told of every statement sent, for tests and benchmarks that count them. */
  readonly onStatement?: (sql: string) => void
  /** Told when an idle connection is lost. The pool opens another by itself. */
  readonly onLost?: (error: Error) => void
}

// Identifiers and counts come as bigint; all of them stay far below 2^53, and a string would break `===`.
const INT8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8 && format !== 'binary'
      ? Number
      : pg.types.getTypeParser(oid, format as 'text')) as pg.CustomTypesConfig['getTypeParser'],
}

/**
 * Opens the pool. No connection is made before the first statement.
 * Nothing is set on the session: behind PgBouncer in transaction mode a session setting would leak to others.
 */
export function openDatabase(options: OpenOptions): Database {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.max ?? 10,
    application_name: options.name ?? 'fillrate',
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    types,
  })
  // Without a listener, a connection that Postgres ends while idle would end the process.
  pool.on('error', (error) => options.onLost?.(error))
  return new Kysely<Schema>({
    dialect: new PostgresDialect({ pool }),
    ...(options.onStatement && {
      log: (event) => {
        options.onStatement?.(event.query.sql)
      },
    }),
  })
}
