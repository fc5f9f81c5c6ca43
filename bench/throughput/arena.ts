import { appendFileSync } from 'node:fs'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'
import { onServer } from '../../test/support/server.ts'
import { costliest, resetStatements, STATEMENT_SETTINGS } from './costliest.ts'
import { createCrm } from './crm.ts'
import { treeCpuMs } from './process-tree.ts'

export interface OpenDatabase {
  readonly url: string
  /** What its statements cost since it was opened, the costliest first; empty where that is not counted. */
  costliest(): Promise<string>
  drop(): Promise<void>
}

/** One Postgres for all contenders, each with a new database that is the same to the byte. */
export interface Arena {
  readonly version: string
  /** A new database with so many rows to enrich. */
  open(rows: number): Promise<OpenDatabase>
  /** Processor time of Postgres so far, in milliseconds; null where it can't be read. */
  cpuMs(): Promise<number | null>
  stop(): Promise<void>
}

/**
 * Postgres as it comes, but for what is given: every commit waits for the disk, as it does for a user.
 * @param options.statements count what each statement costs
 */
export async function openArena(options: {
  readonly settings: readonly string[]
  readonly statements: boolean
  readonly postgresLog: string | null
}): Promise<Arena> {
  const { settings, statements, postgresLog } = options
  const server = await startEmbeddedPostgres(
    [...settings, ...(statements ? STATEMENT_SETTINGS : [])],
    (text) => {
      if (postgresLog !== null) appendFileSync(postgresLog, text)
    },
  )
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
      const made = templates.get(rows) ?? makeTemplate(server.url, at, rows)
      templates.set(rows, made)
      const template = await made
      const name = `bench_${++opened}`
      await onServer(server.url, async (client) => {
        await client.query(`create database ${name} template ${template}`)
        // What the clone left to write must not be written while a contender runs.
        await client.query('checkpoint')
        if (statements) await resetStatements(client)
      })
      return {
        url: at(name),
        costliest: async () => (statements ? onServer(server.url, (client) => costliest(client, name)) : ''),
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
