import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { openDatabase, type Database } from '../../src/store/open.ts'
import { TEMPLATE, onServer } from './server.ts'

export interface TestDatabase {
  readonly url: string
  /** For the test's own transactions. */
  readonly pool: pg.Pool
  readonly db: Database
  /** The rows of a statement. */
  query<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>
  /** The value of an expression or of a subselect. */
  scalar<Value = unknown>(expression: string, values?: unknown[]): Promise<Value>
  /** How many rows there are: `count("fillrate.rows where state = 'waiting'")`. */
  count(from: string): Promise<number>
  /** Of a table's content, which changes with any byte of it. */
  checksum(table: string): Promise<string>
  /** Until a statement waits for another transaction. */
  untilBlocked(): Promise<void>
  /** SQL texts sent through `db` since the last call. */
  statements(): string[]
  /** Ends both pools, so that the database can be cloned. */
  end(): Promise<void>
  /** Ends both pools and drops the database. @throws when another connection is still open */
  drop(): Promise<void>
}

/** Creates a database, cloned from the migrated template in a few milliseconds. */
export async function cloneDatabase(server: string, template = TEMPLATE): Promise<TestDatabase> {
  const name = `fillrate_test_${randomBytes(6).toString('hex')}`
  // Copying files takes half the processor time of Postgres's default, which writes them to the WAL.
  await onServer(server, async (client) => {
    const strategy = (await hasCloneStrategies(client)) ? 'strategy file_copy' : ''
    await client.query(`create database ${name} template ${template} ${strategy}`)
  })
  const url = new URL(server)
  url.pathname = `/${name}`
  let sent: string[] = []
  const db = openDatabase({ url: url.href, onStatement: (text) => sent.push(text) })
  const pool = new pg.Pool({ connectionString: url.href, max: 4 })
  pool.on('error', () => {})
  const query: TestDatabase['query'] = async <Row>(text: string, values: unknown[] = []) =>
    (await pool.query(text, values)).rows as Row[]
  const scalar: TestDatabase['scalar'] = async <Value>(expression: string, values: unknown[] = []) => {
    const [row] = await query<{ value: Value }>(`select (${expression}) as value`, values)
    return row?.value as Value
  }
  const end = async (): Promise<void> => {
    await db.destroy()
    await pool.end()
  }
  return {
    url: url.href,
    pool,
    db,
    query,
    scalar,
    count: (from) => scalar<number>(`select count(*)::int from ${from}`),
    checksum: (table) =>
      scalar<string>(
        `select md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) from ${table} t`,
      ),
    untilBlocked: async () => {
      while (!(await scalar<boolean>(IS_BLOCKED))) await query('select pg_sleep(0.02)')
    },
    statements: () => {
      const texts = sent
      sent = []
      return texts
    },
    end,
    drop: async () => {
      await end()
      await onServer(server, async (client) => {
        const left = await openConnections(client, name)
        await client.query(`drop database ${name} with (force)`)
        if (left.length > 0) throw new Error(`a pool was left open: ${left.join(', ')}`)
      })
    },
  }
}

const IS_BLOCKED = `exists (
  select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0)`

/** Since Postgres 15; before, files are always copied. */
async function hasCloneStrategies(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  )
  return (rows[0]?.version ?? 0) >= 150_000
}

/** Connections that stay open. A backend lives on for a moment after its client has disconnected. */
async function openConnections(client: pg.Client, database: string): Promise<string[]> {
  for (let attempt = 0; ; attempt++) {
    const { rows } = await client.query<{ application_name: string }>(
      'select application_name from pg_stat_activity where datname = $1',
      [database],
    )
    if (rows.length === 0 || attempt === 600) return rows.map((row) => row.application_name || 'unnamed')
    await client.query('select pg_sleep(0.05)')
  }
}
