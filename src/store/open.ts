import pg from 'pg'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import {
  CompiledQuery,
  Kysely,
  PostgresDialect,
  PostgresDriver,
  type DatabaseConnection,
  type PostgresDialectConfig,
  type TransactionSettings,
  type Generated,
  type JSONColumnType,
} from 'kysely'
import { PREPARED_MARK } from './sql.ts'
import type { ConditionKind } from '../domain/condition.ts'
import type { JobState } from '../domain/job.ts'
import { refusalOf } from '../domain/refusal.ts'
import type { RunState, StoredRunOptions, Trigger } from '../domain/run.ts'

export type Database = Kysely<Schema>

export interface OpenOptions {
  readonly url: string
  /** Maximum number of connections. */
  readonly max?: number
  /** Shown in pg_stat_activity. */
  readonly name?: string
  /** Called with every statement sent, for tests and benchmarks that count them. */
  readonly onStatement?: (sql: string) => void
  /**
   * Milliseconds of silence after which a connection is dropped, because its other end may be gone. Kept if Postgres is
   * still running its statement. Default: never.
   */
  readonly silentAfterMs?: number
  /** Called when an idle connection is lost. The pool opens another one by itself. */
  readonly onLost?: (error: Error) => void
  /** Called with every error that the server reports, when it is connected to as well. */
  readonly onServerError?: ((error: Error) => void) | undefined
}

// Identifiers and counts are bigint; all stay far below 2^53, and a string would break `===`.
const INT8 = 20
const TIMESTAMPTZ = 1184
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    const parse = pg.types.getTypeParser(oid, format as 'text')
    if (format === 'binary') return parse
    if (oid === INT8) return Number
    return oid === TIMESTAMPTZ ? (text: string) => parseTime(text, parse(text)) : parse
  }) as pg.CustomTypesConfig['getTypeParser'],
}

/** The driver parses ISO only and returns null for any other format, which would make a time look absent. */
function parseTime(text: string, time: unknown): unknown {
  if (time !== null) return time
  throw new Error(
    `a time came as '${text}', and only ISO is read: DateStyle=ISO, which every connection begins with, was not ` +
      'kept. If there is a pooler in between, let it pass on the startup parameter DateStyle.',
  )
}

/**
 * A connection that writes times as ISO and reads a backslash in a string as itself, whatever the database or the role is
 * set to. Set as startup parameters, which PgBouncer keeps for each of its clients; a SET would leak to others in transaction mode. The order of day and month
 * stays the database's, because the user's expressions depend on it; ISO has only one.
 */
class FillrateClient extends pg.Client {
  /** Whether the other end is the backend itself; null until `findBackend` has compared. */
  #isDirect: boolean | null = null
  #isInTransaction = false
  /** Sets the search path of a pooler's transaction; empty where nothing is left out of the role's own. */
  #setPath = ''

  constructor(config: pg.ClientConfig & Pick<OpenOptions, 'onServerError'>) {
    super(config)
    const { connection } = this as unknown as { readonly connection: EventEmitter }
    if (config.onServerError) connection.on('errorMessage', config.onServerError)
  }

  getStartupConf(): Record<string, string> {
    const { getStartupConf } = pg.Client.prototype as unknown as { getStartupConf(): Record<string, string> }
    return { ...getStartupConf.call(this), DateStyle: 'ISO', standard_conforming_strings: 'on' }
  }

  /**
   * Compares the process id of the connection with the id of the backend. A pooler shows itself by an id of its
   * own: each transaction may go to another backend, which does not know what was prepared (PgBouncer before 1.21).
   * Without a pooler the session is ours, and the same statement turns JIT off for statements outside of
   * transactions; behind one, each gets a transaction, where JIT is off.
   */
  async findBackend(): Promise<void> {
    const { processID } = this as unknown as { readonly processID: number | null }
    const { rows } = await super.query<{ is_direct: boolean }>(
      `select pid = $1 as is_direct, case when pid = $1 then pg_catalog.set_config('jit', 'off', false) end
       from pg_catalog.pg_backend_pid() as pid`,
      [processID],
    )
    const isDirect = rows[0]?.is_direct === true
    await this.#narrowSearchPath(isDirect)
    this.#isDirect = isDirect
  }

  async #narrowSearchPath(isDirect: boolean): Promise<void> {
    // Both in the one transaction of a message, which turns JIT off behind a pooler too.
    const results: unknown = await super.query(`set local jit = off; ${SEARCH_PATH_SQL}`)
    const [, found] = results as readonly pg.QueryResult<{ searched: string | null; own: string }>[]
    const { searched = null, own = '' } = found?.rows[0] ?? {}
    if (searched === null) return
    const set = setSearchPathSql({ searched, own }, !isDirect)
    if (isDirect) await super.query(set)
    else this.#setPath = `${set};`
  }

  /** Prepares the statements that are marked for it, on a connection without a pooler. */
  override query(...args: unknown[]): never {
    const [text, values, ...rest] = args
    const send = super.query.bind(this) as unknown as (...sent: unknown[]) => never
    if (typeof text !== 'string') return send(...args)
    if (this.#isDirect === true)
      return text.startsWith(PREPARED_MARK)
        ? send({ name: statementName(text), text, values }, ...rest)
        : send(...args)
    if (text.startsWith('begin')) {
      this.#isInTransaction = true
      return send(
        text.replace(';', () => `;${this.#setPath}`),
        ...args.slice(1),
      )
    }
    if (text === 'commit' || text === 'rollback') this.#isInTransaction = false
    else if (this.#isDirect === false && !this.#isInTransaction)
      return inTransactionOfItsOwn(send, this.#setPath, args) as never
    return send(...args)
  }
}

async function inTransactionOfItsOwn(
  send: (...sent: unknown[]) => Promise<unknown>,
  setPath: string,
  args: readonly unknown[],
): Promise<unknown> {
  await send(`begin; ${setPath} ${SET_FOR_TRANSACTION}`)
  try {
    const result = await send(...args)
    await send('commit')
    return result
  } catch (error) {
    await send('rollback').catch(() => {})
    throw error
  }
}

/** Texts that are prepared, and how often each was sent. */
const preparedTexts = new Map<string, { readonly id: number; uses: number }>()

/**
 * A name for each text: two texts of one name are an error. A new one whenever it was sent four times as often, so that it is planned
 * again: a plan for the few rows of a run's beginning reads tables whole, and Postgres keeps it until they are analyzed.
 */
function statementName(text: string): string {
  const prepared = preparedTexts.get(text) ?? { id: preparedTexts.size, uses: 0 }
  preparedTexts.set(text, prepared)
  prepared.uses++
  return `fillrate_${prepared.id}_${Math.floor(Math.log2(prepared.uses) / 2)}`
}

/**
 * Whether Postgres is still running a connection's statement, checked over another connection: a long statement is
 * silent too, and would be cut off and sent again for ever. Cannot be known behind PgBouncer.
 */
async function isBackendActive(url: string, processID: number | null, timeoutMs: number): Promise<boolean> {
  const look = new pg.Client({
    connectionString: url,
    application_name: 'fillrate look',
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  })
  look.on('error', () => {})
  try {
    await look.connect()
    const { rowCount } = await look.query(
      `select from pg_stat_activity where pid = $1 and state = 'active' and datname = current_database()`,
      [processID],
    )
    return rowCount === 1
  } catch {
    return false
  } finally {
    await look.end().catch(() => {})
  }
}

/**
 * The driver verifies the certificate in these modes as in `verify-full`, and says in nine lines that this will change. Ours
 * stays as it is.
 */
const withExplicitTls = (url: string): string =>
  url.includes('uselibpqcompat=')
    ? url
    : url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full')

/**
 * How values are written as text in every transaction, whatever the database or the role is set to: a later run
 * compares and restores what an earlier one stored. Of DateStyle only the format is set; the order of day and
 * month, and TimeZone, stay as the user's expressions expect them.
 *
 * JIT is off: our statements read few rows, and compiling one took 10 s for 3,000 rows. Postgres ends a transaction
 * that waits half a minute for its client: ours do nothing but SQL, so the client is gone, and holds locks that
 * others need.
 */
const TRANSACTION_SETTINGS = {
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  extra_float_digits: '1',
  bytea_output: 'hex',
  array_nulls: 'on',
  jit: 'off',
  idle_in_transaction_session_timeout: '30000',
}

const SET_FOR_TRANSACTION = `select ${Object.entries(TRANSACTION_SETTINGS)
  .map(([name, value]) => `set_config('${name}', '${value}', true)`)
  .join(', ')}`

/** Timeouts of a transaction, in milliseconds. */
interface TransactionTimeouts {
  readonly statement?: number | undefined
  readonly lock?: number | undefined
}

/** The timeouts of the transactions that are begun within it. */
export const currentTimeouts = new AsyncLocalStorage<TransactionTimeouts>()

/** Sets a transaction's settings in the message that begins it: on their own they were a tenth of what a run sent. */
class SettingDriver extends PostgresDriver {
  override async beginTransaction(
    connection: DatabaseConnection,
    { isolationLevel, accessMode }: TransactionSettings,
  ): Promise<void> {
    const modes = [isolationLevel && ` isolation level ${isolationLevel}`, accessMode && ` ${accessMode}`]
    const timeouts = Object.entries(currentTimeouts.getStore() ?? {})
      .filter(([, ms]) => ms !== undefined)
      .map(([name, ms]) => `, set_config('${name}_timeout', '${Math.round(Number(ms))}', true)`)
    await connection.executeQuery(
      CompiledQuery.raw(`begin${modes.join('')}; ${SET_FOR_TRANSACTION}${timeouts.join('')}`),
    )
  }
}

class SettingDialect extends PostgresDialect {
  readonly #config: PostgresDialectConfig

  constructor(config: PostgresDialectConfig) {
    super(config)
    this.#config = config
  }

  override createDriver(): PostgresDriver {
    return new SettingDriver(this.#config)
  }
}

const refusals = new WeakMap<Database, number>()

/** When the server refused a statement of this pool last, whatever its rows were, by `performance.now()`. */
export const refusedAt = (db: Database): number => refusals.get(db) ?? Number.NEGATIVE_INFINITY

/**
 * Opens the pool; the first statement opens the first connection.
 * Sets nothing on a pooler's session: behind PgBouncer in transaction mode a session setting would leak to others.
 */
export function openDatabase({ url: given, ...options }: OpenOptions): Database {
  const url = withExplicitTls(given)
  const config: pg.PoolConfig & Pick<OpenOptions, 'onServerError'> = {
    Client: FillrateClient as typeof pg.Client,
    connectionString: url,
    max: options.max ?? 10,
    application_name: options.name ?? 'fillrate',
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    // Node then sends ten probes, one a second: a dead machine is noticed in 20 s.
    keepAliveInitialDelayMillis: 10_000,
    types,
    onServerError: (error) => {
      if (refusalOf(error) !== null) refusals.set(db, performance.now())
      options.onServerError?.(error)
    },
    // Awaited by the pool; its type does not say so.
    onConnect: (client) => (client as FillrateClient).findBackend(),
  }
  const pool = new pg.Pool(config)
  // Without a listener, an idle connection that Postgres closes would end the process.
  pool.on('error', (error) => options.onLost?.(error))
  const { silentAfterMs } = options
  pool.on('connect', (client) => {
    // The pool listens to idle connections only: one that closes between two statements of a transaction would end the
    // process. Its next statement fails with an error.
    client.on('error', () => {})
    if (silentAfterMs === undefined) return
    const { connection, processID } = client as unknown as {
      connection: { stream: Socket }
      processID: number | null
    }
    const { stream } = connection
    stream.setTimeout(silentAfterMs, () => {
      void isBackendActive(url, processID, silentAfterMs).then((atWork) => {
        if (atWork) stream.setTimeout(silentAfterMs)
        else stream.destroy(new Error(`the connection went silent for ${silentAfterMs / 1000} s`))
      })
    })
  })
  const db: Database = new Kysely<Schema>({
    dialect: new SettingDialect({ pool }),
    ...(options.onStatement && {
      log: (event) => {
        options.onStatement?.(event.query.sql)
      },
    }),
  })
  return db
}

/** The search path of a role, as Fillrate uses it. */
interface SearchPath {
  /** The schemas that are searched, as the setting is written. */
  readonly searched: string
  /** All schemas of the role's own path, as an array literal: tables of the configuration are found in these. */
  readonly own: string
}

/**
 * The role's search path without the schemas in which another role may create. Postgres prefers an operator or function for
 * exactly the types of its arguments to its own for any type, whatever its schema: one that another role has created would run
 * with the rights of Fillrate's. Superusers, the owners of the database, of the schema, and of tables that this role updates,
 * whose triggers run with its rights anyway, are no such roles.
 * NULL: no schema has to be left out.
 */
const SEARCH_PATH_SQL = `
  select case when pg_catalog.bool_or(s.is_open) then pg_catalog.concat_ws(', ',
           pg_catalog.string_agg(pg_catalog.quote_ident(s.name), ', ' order by s.place) filter (where not s.is_open),
           'pg_temp'::pg_catalog.text) end as searched,
         pg_catalog.array_agg(s.name order by s.place)::pg_catalog.text as own
    from (select n.nspname::pg_catalog.text as name, p.place, exists (
            select from pg_catalog.aclexplode(n.nspacl) as a
              left join pg_catalog.pg_roles as r on r.oid = a.grantee
             where a.privilege_type = 'CREATE'::pg_catalog.text and a.grantee <> n.nspowner and a.grantee <> d.datdba
               and r.rolsuper is not true and r.rolname is distinct from current_user
               and not exists (select from pg_catalog.pg_class as c
                                where c.relowner = a.grantee and c.relkind operator(pg_catalog.=) any ('{r,p}'::"char"[])
                                  and pg_catalog.has_any_column_privilege(c.oid, 'UPDATE'::pg_catalog.text))) as is_open
            from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as p(name, place)
            join pg_catalog.pg_namespace as n on n.nspname = p.name
            join pg_catalog.pg_database as d on d.datname = pg_catalog.current_database()) as s`

/** SQL: sets the search path, for the transaction or for the session. */
const setSearchPathSql = ({ searched, own }: SearchPath, isLocal: boolean): string =>
  `select pg_catalog.set_config('search_path', ${literal(searched)}, ${isLocal}), ` +
  `pg_catalog.set_config('${OWN_PATH_SETTING}', ${literal(own)}, ${isLocal})`

/** Holds the schemas of the role's own path where some of them are left out. */
const OWN_PATH_SETTING = 'fillrate.own_search_path'

const literal = (text: string): string => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** JSON of which no type is given is validated where it is read. It is written as text. */
type Json<Value extends object = object> = JSONColumnType<Value, string, string>
type DefaultJson<Value extends object = object> = JSONColumnType<Value, string | undefined, string>

/**
 * The columns that plain statements of one table, built by Kysely, read and write. The others are in statements of their own, whose
 * rows the tests hold against their types.
 */
export interface Schema {
  'fillrate.runs': {
    id: Generated<number>
    trigger: Trigger
    sources: string[]
    options: DefaultJson<StoredRunOptions>
    state: RunState
    reason: string | null
    failed_for: ConditionKind | null
    owner: string
    lease_token: string
    leased_until: Date
    started_at: Generated<Date>
    picking_finished_at: Date | null
    finished_at: Date | null
    /** Null: it was not cancelled. */
    cancelled_by: string | null
    totals: Json | null
    scopes: DefaultJson<Record<string, string>>
    failed_scope: string | null
    /** The version of Fillrate that made it; null: one that did not store it. */
    version: string | null
  }
  'fillrate.services': {
    /** When a person wanted it to be tried at once, last. */
    try_at: Date | null
    id: number
    /** The host, with the path in front of `/v1` if there is one. */
    host: string
    /** In the configuration; null: it has one service. */
    name: string | null
  }
  'fillrate.jobs': {
    key: string
    job_id: string | null
    state: JobState
    reason: string | null
    size: number
    run_id: number | null
    created_at: Generated<Date>
    submitted_at: Date | null
    deadline_at: Date
    finished_at: Date | null
  }
  'fillrate.processes': {
    owner: string
    role: 'start' | 'serve' | 'run'
    host: string
    pid: number
    version: string
    node_version: string
    config: Json
    config_path: string | null
    started_at: Date
    seen_at: Generated<Date>
    refused: string | null
    refused_at: Date | null
  }
  'fillrate.audit_events': {
    id: Generated<number>
    origin: 'dashboard' | 'command line' | 'library'
    outcome: 'done' | 'interrupted' | 'failed' | null
    detail: string | null
    run_id: number | null
    finished_at: Date | null
  }
}
