import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type CommandLine, createCommandLine } from './cli.ts'
import { cloneDatabase, type TestDatabase } from './clone.ts'
import { createCrm, withAccounts } from './crm.ts'
import { createTemplate } from './server.ts'

/** What version 1.0.0 has left in Postgres, as dumps. A later version has to work with it. */
export const RELEASED = 'test/fixtures/1.0.0'

/** The configuration that the dumps were made with. */
export const releasedConfig = {
  ...withAccounts,
  sources: { ...withAccounts.sources, contacts: { ...withAccounts.sources.contacts, follow: true } },
  bulk: { minimum: 20 },
}

/** The service's address in the dumps: at another one it would be another service. */
export const RELEASED_ADDRESS = '127.0.0.1:4010'

type Reach = (database: TestDatabase, cli: CommandLine) => Promise<void>

/** What is dumped, by the names of the files. */
const STATES: Readonly<Record<string, Reach>> = {
  /** A run has ended, and another one, in bulk, was undone. */
  idle: async (_database, cli) => {
    await succeed(cli, 'run', 'contacts', '--route', 'sync')
    await succeed(cli, 'run', 'accounts')
    await succeed(cli, 'undo', '2', '--yes')
  },
  /** A run was killed with half of its calls made, and with a job whose results never came. */
  'mid-run': async (database, cli) => {
    const { child, ended } = cli.start('run')
    const isHalf = `(select count(*) from fillrate.rows where state = 'enriched') >= 10 and exists (select from fillrate.jobs where state = 'submitted')`
    await until(database, isHalf)
    child.kill('SIGKILL')
    await ended
  },
  /** Live sync was on, and rows have changed since its process was killed. */
  'live-sync': async (database, cli) => {
    await succeed(cli, 'run', 'contacts', '--route', 'sync')
    await succeed(cli, 'follow', 'install', 'contacts')
    const { child, ended } = cli.start('start')
    await database.query(`insert into crm.contacts (email) values ('live1@example.com')`)
    await until(database, `(select count(*) from fillrate.rows where state <> 'waiting') = 61`)
    child.kill('SIGKILL')
    await ended
    await database.query(`insert into crm.contacts (email) values ('live2@example.com')`)
    await database.query(`update crm.contacts set email = 'moved@example.com' where id = 2`)
  },
}

async function succeed(cli: CommandLine, ...args: string[]): Promise<void> {
  const { code, stderr } = await cli.run(...args)
  if (code !== 0) throw new Error(`${args.join(' ')} has ended with ${code}: ${stderr}`)
}

async function until({ scalar }: TestDatabase, condition: string): Promise<void> {
  while (!(await scalar<boolean>(condition))) await scalar('pg_sleep(0.02)')
}

// Once, with the release: bash test/support/postgres-15.sh npx node test/support/released.ts
if (import.meta.main) {
  const server = process.env['TEST_DATABASE_URL'] ?? ''
  await createTemplate(server)
  mkdirSync(RELEASED, { recursive: true })
  for (const [name, reach] of Object.entries(STATES)) {
    const database = await cloneDatabase(server)
    await createCrm(database.pool, 60, 40)
    const isSlow = name === 'mid-run'
    const sandbox = await startSandbox({
      notFoundShare: 0.1,
      ...(isSlow && { latencyAfterMs: 150, faults: { lost: 1 } }),
    })
    const cli = await createCommandLine(database.url, sandbox, releasedConfig)
    await reach(database, cli)
    await cli.remove()
    await sandbox.close()
    // INSERTs, which a client other than `psql` can send, too; a line that begins with a backslash is for `psql` alone.
    const options = [
      '--inserts',
      '--rows-per-insert=100',
      '--no-toast-compression',
      '--no-owner',
      '--no-privileges',
      database.url,
    ]
    const dump = execFileSync('/usr/lib/postgresql/15/bin/pg_dump', options, { encoding: 'utf8' })
    const text = dump.replaceAll(`127.0.0.1:${sandbox.port}`, RELEASED_ADDRESS)
    writeFileSync(`${RELEASED}/${name}.sql`, text.replaceAll(/^(\\.*|--.*|)\n/gm, ''))
    await database.drop()
  }
}
