import { startEmbeddedPostgres, type EmbeddedServer } from '../support/embedded-postgres.ts'
import { createTemplate } from '../support/server.ts'

/** A Postgres server that a test can crash. */
export type CrashableServer = Omit<EmbeddedServer, 'pid'>

/** Commits must survive a crash of the server, but not one of the machine. */
const SETTINGS = ['fsync=off', 'synchronous_commit=on', 'max_connections=100']

export async function startCrashableServer(): Promise<CrashableServer> {
  const server = await startEmbeddedPostgres(SETTINGS)
  await createTemplate(server.url)
  return server
}
