import pg from 'pg'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DemoError } from '../settings.ts'
import { findDataOwner, findServerAccount } from './program.ts'
import { findBinaries } from './binaries.ts'
import { CLUSTER_ROLE, dataFolder, findClusterBinaries, readPassword, requireVersion } from './cluster.ts'
import {
  type PostgresServerOptions,
  guardServer,
  isServerRunning,
  readPostmaster,
  startServer,
  stopServer,
} from './server.ts'
import { openHome } from './home.ts'

/** The demo's running Postgres. */
export interface DemoPostgres {
  /** URL of the database `crm`, with the password. */
  readonly url: string
  /** `127.0.0.1:34123`. */
  readonly address: string
  /** Holds data and password: in the demo's folder, or elsewhere if Postgres cannot enter that. */
  readonly home: string
  /** The major version. */
  readonly version: string
  /** Stops the server; its data stay. */
  stop(): Promise<void>
}

/** Advisory lock, held on its own connection while a demo runs: the server releases it when the demo dies. */
const LOCK = 0x66696c6c
const MAX_TRIES = 5
const ANSWER_TIMEOUT_MS = 20_000

/**
 * Opens the embedded Postgres of a folder, created on first use. Stops one that a killed demo left running.
 *
 * @param state the folder `.fillrate`
 * @throws DemoError if it cannot run, or another demo runs in this folder
 */
export async function openPostgres(state: string, env: NodeJS.ProcessEnv): Promise<DemoPostgres> {
  const mine = await findServerAccount(env)
  const installed = await findBinaries({ platform: process.platform, arch: process.arch })
  const home = await openHome(state, { binaries: installed, account: mine, env })
  const account = await findDataOwner(dataFolder(home), mine)
  const options = { home, binaries: await findClusterBinaries(home, installed), account, env }
  const version = await requireVersion(options)
  const password = await readPassword(home, version)

  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    await stopLeftoverServer(options, password, state)
    if (!(await startServer(options))) continue
    const opened = await claimServer(options, password, state)
    if (opened !== null) return { ...opened, home, version }
  }
  throw new DemoError(
    `The embedded Postgres of ${state} could not be started: another process interfered ${MAX_TRIES} times.`,
  )
}

/** Claims the server just started; null if another demo was faster. */
async function claimServer(
  options: PostgresServerOptions,
  password: string,
  state: string,
): Promise<Pick<DemoPostgres, 'url' | 'address' | 'stop'> | null> {
  const postmaster = await readPostmaster(dataFolder(options.home))
  const holder = postmaster && (await takeLock(postmaster.port, password, state))
  if (!postmaster || !holder) return null
  const dismissGuard = guardServer(dataFolder(options.home), postmaster)
  const stop = async (): Promise<void> => {
    await holder.end().catch(() => {})
    await stopServer(options)
    dismissGuard()
  }
  try {
    const { rowCount } = await holder.query("select from pg_database where datname = 'crm'")
    if (rowCount === 0) await holder.query('create database crm')
  } catch (error) {
    await stop()
    throw error
  }
  return { url: databaseUrl(postmaster.port, password, 'crm'), address: `127.0.0.1:${postmaster.port}`, stop }
}

/** Stops the server that a killed demo left behind; waits for one that is shutting down. */
async function stopLeftoverServer(
  options: PostgresServerOptions,
  password: string,
  state: string,
): Promise<void> {
  const data = dataFolder(options.home)
  const postmaster = await readPostmaster(data)
  if (postmaster === null) return
  const isThere = (): Promise<boolean> => isServerRunning(data, postmaster, options.env)
  if (!(await isThere())) {
    // Postgres would mistake another process of the same user with this number for its server.
    await rm(join(data, 'postmaster.pid'), { force: true })
    return
  }
  for (const until = Date.now() + ANSWER_TIMEOUT_MS; Date.now() < until; await sleep(100)) {
    if (!(await isThere())) return
    if ((await takeLock(postmaster.port, password, state)) === null) continue
    await stopServer(options)
    return
  }
  throw new DemoError(
    `A Postgres runs with the data of ${options.home} (process ${postmaster.pid}), and does not answer.\nEnd it and try again: kill ${postmaster.pid}`,
  )
}

/**
 * Takes the lock on its own connection.
 * @returns null if the server does not answer: it is starting up or shutting down
 */
async function takeLock(port: number, password: string, state: string): Promise<pg.Client | null> {
  const client = new pg.Client({
    connectionString: databaseUrl(port, password, 'postgres'),
    application_name: 'fillrate demo',
    connectionTimeoutMillis: 5_000,
  })
  // A stopping server ends its connections; without a listener, that would end the process.
  client.on('error', () => {})
  let isMine: boolean | undefined
  try {
    await client.connect()
    const { rows } = await client.query<{ locked: boolean }>('select pg_try_advisory_lock($1) locked', [LOCK])
    isMine = rows[0]?.locked
  } catch {
    isMine = undefined
  }
  if (isMine === true) return client
  await client.end().catch(() => {})
  if (isMine === undefined) return null
  throw new DemoError(
    `Another demo runs in this folder (${state}). Wait for it to end, press Ctrl-C in its terminal if it was started with --keep, or run this one in another folder.`,
  )
}

// sslmode: PGSSLMODE may be set in the environment for another server.
const databaseUrl = (port: number, password: string, database: string): string =>
  `postgres://${CLUSTER_ROLE}:${password}@127.0.0.1:${port}/${database}?sslmode=disable`
