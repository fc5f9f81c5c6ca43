import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect } from 'vitest'
import { createReleasedCrm } from '../../../scripts/releases/crm.ts'
import { type CommandLine, createCommandLine, type Started } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/clone.ts'
import { createTestDatabase } from '../../support/database.ts'
import { type RestoredRelease, restoreRelease } from '../../support/released.ts'

// Steps of the tests with released versions. What they open is closed after each test.

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close()
})

export async function restore(version: string, state: string): Promise<RestoredRelease> {
  const release = await restoreRelease(version, state)
  opened.push(() => release.close())
  return release
}

/** @returns what the command printed. It has to succeed */
export async function run(cli: CommandLine, ...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli.run(...words)
  expect({ words, code, stderr }).toMatchObject({ words, code: 0 })
  return stdout
}

export function start(cli: CommandLine, port: number, ...words: string[]): Started {
  const started = cli.startWith({ FILLRATE_PORT: String(port) }, ...words)
  opened.push(async () => {
    started.child.kill('SIGKILL')
    await started.ended
  })
  return started
}

/** No input was paid twice, except those whose answer was on the wire when the old version was killed. */
export async function expectNotPaidTwice(release: RestoredRelease): Promise<void> {
  const asked = await release.countAsked()
  expect(asked.filter(({ tried, wasCut }) => tried > (wasCut ? 2 : 1))).toEqual([])
}

/** The rows of contacts and accounts without their times, and without those whose inputs changed between two writes. */
export const readCells = (database: TestDatabase, where = 'true'): Promise<object[]> =>
  database.query(`
    select 'contacts' as source, id, email, title, phone, seniority, company, attributes::text from crm.contacts
     where email not like 'moved%' and ${where}
     union all
    select 'accounts', id, website, industry, employees::text, null, null, null from crm.accounts where id > 3 and ${where}
     order by 1, 2`)

/** The cells as today's program alone fills them, from the same inputs. Calls the service again. */
export async function enrichAnew({ database, cli, sandbox }: RestoredRelease): Promise<object[]> {
  const anew = await createTestDatabase()
  opened.push(() => anew.drop())
  await createReleasedCrm(anew.pool, 0, 0)
  const inputs = { contacts: 'id, email, linkedin', accounts: 'id, website' }
  for (const [table, columns] of Object.entries(inputs)) {
    const rows = await database.query(`select ${columns} from crm.${table}`)
    await anew.query(
      `insert into crm.${table} (${columns}) select ${columns} from json_populate_recordset(null::crm.${table}, $1)`,
      [JSON.stringify(rows)],
    )
  }
  await anew.query(`update crm.contacts set title = 'typed by hand' where id % 7 = 0`)
  const config = await readFile(join(cli.folder, 'fillrate.config.json'), 'utf8')
  const own = await createCommandLine(anew.url, sandbox, config)
  opened.push(() => own.remove())
  await run(own, 'run')
  return readCells(anew)
}
