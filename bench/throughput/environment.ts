import { appendFileSync } from 'node:fs'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'
import { onServer } from '../../test/support/server.ts'
import { slowestStatements, resetStatements, STATEMENT_SETTINGS } from './slowest-statements.ts'
import { createCrm } from './crm.ts'
import { treeCpuMs } from './process-tree.ts'

interface OpenDatabase {
  readonly url: string
  /** The statements that cost Postgres most since it was opened, the slowest first; empty if not recorded. */
  slowestStatements(): Promise<string>
  drop(): Promise<void>
}

/** One Postgres for all candidates, each with a new database, identical to the byte. */
export interface BenchEnvironment {
  readonly version: string
  /** Creates a database with this many rows to enrich. */
  open(rows: number): Promise<OpenDatabase>
  /** CPU time of Postgres so far, in milliseconds; null if it cannot be read. */
  cpuMs(): Promise<number | null>
  stop(): Promise<void>
}

/**
 * Postgres with its default settings except those given: every commit waits for the disk, as it does for a user.
 * @param options.statements records what each statement costs
 */
export async function openBenchEnvironment(options: {
  readonly settings: readonly string[]
  readonly statements: boolean
  readonly postgresLog: string | null
}): Promise<BenchEnvironment> {
  const { settings, statements, postgresLog } = options
  const server = await startEmbeddedPostgres([...settings, ...(statements ? STATEMENT_SETTINGS : [])], {
    onLog: (text) => {
      if (postgresLog !== null) appendFileSync(postgresLog, text)
    },
  })
  const at = (name: string): string => Object.assign(new URL(server.url), { pathname: `/${name}` }).href
  const templates = new Map<number, Promise<string>>()
  let opened = 0

  const version = await onServer(server.url, async (client) => {
    const { rows } = await client.query<{ server_version: string }>('show server_version')
    return rows[0]?.server_version ?? 'unknown'
  })
  return {
    version,
    open: async (rows) => {
      const template = templates.get(rows) ?? makeTemplate(server.url, at, rows)
      templates.set(rows, template)
      const name = `bench_${++opened}`
      await onServer(server.url, async (client) => {
        await client.query(`create database ${name} template ${await template}`)
        // Pages left dirty by the clone must not be written while a candidate runs.
        await client.query('checkpoint')
        if (statements) await resetStatements(client)
      })
      return {
        url: at(name),
        slowestStatements: async () =>
          statements ? onServer(server.url, (client) => slowestStatements(client, name)) : '',
        drop: () =>
          onServer(server.url, async (client) => {
            await client.query(`drop database ${name} with (force)`)
          }),
      }
    },
    cpuMs: () => treeCpuMs(server.pid),
    stop: () => server.stop(),
  }
}

async function makeTemplate(server: string, at: (name: string) => string, rows: number): Promise<string> {
  const name = `template_${rows}`
  await onServer(server, (client) => client.query(`create database ${name}`))
  const db = openDatabase({ url: at(name), max: 1 })
  await migrate(db)
  await db.destroy()
  await onServer(at(name), async (client) => {
    await createCrm(client, rows)
    await client.query('vacuum analyze crm.contacts')
  })
  return name
}
