import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endServer, loadEmbeddedPostgres } from '../../src/demo/demo.ts'
import { freePort } from './free-port.ts'

export interface EmbeddedServer {
  readonly url: string
  readonly port: number
  /** The first postmaster, the parent of all the server's processes. */
  readonly pid: number
  /** Ends it as a crash would, without notice to its clients, until it is started again. */
  halt(): Promise<void>
  start(): Promise<void>
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
  const databaseDir = await mkdtemp(join(folder, 'fillrate-postgres-'))
  const EmbeddedPostgres = await loadEmbeddedPostgres(null)
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
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
    port,
    pid: Number(pid),
    halt: () => endServer(databaseDir, 'SIGQUIT'),
    start: () => server.start(),
    // Not by the package, which waits for ever for a server that has been halted.
    stop: async () => {
      await endServer(databaseDir, 'SIGINT')
      await rm(databaseDir, { recursive: true, force: true })
    },
  }
}
