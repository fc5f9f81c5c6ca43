import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import type { Started } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from '../cli/command-line.ts'

// A table that is followed is swapped for a reloaded one, whose cells are blank and which has no triggers.

const { contacts } = crmConfig.sources
const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 50),
  service: { notFoundShare: 0, missingShare: 0 },
  config: { ...crmConfig, sources: { contacts: { ...contacts, follow: true } } },
})
let daemon: Started
let log = ''

beforeAll(async () => {
  await cli.run('follow', 'install', 'contacts')
  await cli.run('run', '--route', 'sync')
  daemon = cli.start('start', '--json')
  daemon.child.stderr?.on('data', (text: string) => (log += text))
})
afterAll(async () => {
  daemon.child.kill('SIGTERM')
  await daemon.ended
})

const status = async (): Promise<StatusReport> =>
  JSON.parse((await cli.run('status', '--json')).stdout) as StatusReport
const conditions = async (): Promise<string[]> =>
  (await status()).conditions.map(({ kind, title, mend }) => `${kind}: ${title} ${mend}`)
const filledTitles = async (): Promise<unknown> => {
  const { contacts } = (await status()).fill_rate
  return typeof contacts === 'object'
    ? contacts.columns.find(({ column }) => column === 'title')?.filled
    : contacts
}

test('a table that is swapped by a rename is one condition, until its triggers are installed', async () => {
  await expect.poll(() => log).toContain('live_sync_started')
  expect(await conditions()).toEqual([])
  await database.query(`
    create table crm.reloaded (like crm.contacts including all);
    insert into crm.reloaded overriding system value
      select id, email, first_name, last_name, linkedin from crm.contacts;
    begin;
    alter table crm.contacts rename to contacts_before;
    alter table crm.reloaded rename to contacts;
    commit`)
  await expect
    .poll(conditions)
    .toEqual([
      expect.stringMatching(
        /^late: .* contacts: its triggers are on crm\.contacts_before, another table Run `fillrate follow install contacts`/,
      ),
    ])
  const checked = await cli.run('check')
  expect(checked.code).not.toBe(0)
  expect(checked.stdout).toContain('its triggers are on crm.contacts_before, another table')
  await database.query('drop table crm.contacts_before')
  await expect.poll(conditions).toEqual([expect.stringContaining('its triggers are not there')])

  await cli.run('follow', 'install', 'contacts')
  await expect.poll(conditions).toEqual([])
  const count = (event: string): number =>
    log.split('\n').filter((line) => line.includes(event) && line.includes('late')).length
  expect([count('condition_began'), count('condition_ended')]).toEqual([1, 1])
  await database.query(
    `insert into crm.contacts (id, email) overriding system value values (99, 'new@example.com')`,
  )
  await expect
    .poll(() => database.query('select from crm.contacts where id = 99 and phone is not null'))
    .toHaveLength(1)
})

test('rows that are blank again are counted as blank by the next run, and written again without a call', async () => {
  const { accepted } = sandbox.stats().calls
  const ran = await cli.run('run', '--route', 'sync', '--json')
  expect(JSON.parse(ran.stdout)).toMatchObject({ rows: { picked: 0 } })
  expect(await filledTitles()).toBe(1)
  expect((await cli.run('remap', 'contacts')).code).toBe(0)
  expect(await database.query('select from crm.contacts where phone is null')).toEqual([])
  expect(sandbox.stats().calls.accepted).toBe(accepted)
})
