import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import { readTriggerState } from '../../../src/sources/triggers/install.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// The triggers without a daemon: what they record, and that they do not affect users.

let app: App
const config = {
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
}

const harness = useHarness({ config, prepare: ({ pool }) => createCrm(pool, 5) })
beforeAll(async () => {
  app = await harness.open()
  await app.follow('install', 'contacts')
})

const keys = async (): Promise<string[]> =>
  (
    await harness.query<{ key: string }>('select unnest(keys) as key from fillrate.changed_rows order by key')
  ).map((row) => row.key)
const state = async (): Promise<unknown> => {
  const source = app.sources.get('contacts')
  if (!source) throw new Error('no source')
  return readTriggerState(app.db, source)
}

test('every statement is recorded with all its keys', async () => {
  await harness.query(`update crm.contacts set email = 'a' || email where id in (1, 2)`)
  await harness.query(`update crm.contacts set email = 'b' || email where id = 1`)
  await harness.query(`update crm.contacts set email = email where id = 3`)
  expect(
    await harness.query('select source, keys, is_import from fillrate.changed_rows order by changed_at, id'),
  ).toEqual([
    { source: 'contacts', keys: ['1', '2'], is_import: false },
    { source: 'contacts', keys: ['1'], is_import: false },
  ])
  await harness.query('truncate fillrate.changed_rows')
})

test('a user without rights on the schema fillrate can write, and is recorded', async () => {
  const role = `clerk_${Date.now()}`
  await harness.query(`create role ${role} login password 'x'`)
  await harness.query(
    `grant usage on schema crm to ${role}; grant select, insert, update on crm.contacts to ${role}`,
  )
  const clerk = new pg.Client({ connectionString: harness.database.url })
  await clerk.connect()
  try {
    await clerk.query(`set role ${role}`)
    // A function of the user's own in the search path must not get the rights of the trigger.
    await clerk.query('create temp table followed (source text, key text)')
    await clerk.query(`set search_path = pg_temp, crm`)
    await clerk.query(`insert into contacts (email) values ('clerk@example.com')`)
    await clerk.query(`update contacts set email = 'clerk2@example.com' where id = 3`)
  } finally {
    await clerk.end()
    await harness.query(`drop owned by ${role}; drop role ${role}`)
  }
  expect(await keys()).toEqual(['3', '6'])
  await harness.query('truncate fillrate.changed_rows')
})

test('an uncommitted change is not lost', async () => {
  const user = new pg.Client({ connectionString: harness.database.url })
  await user.connect()
  await harness.query(`update crm.contacts set email = 'one@example.com' where id = 5`)
  await user.query('begin')
  await user.query(`update crm.contacts set email = 'two@example.com' where id = 5`)
  const { listChangedRows, removeChanges } = await import('../../../src/store/changed-rows.ts')
  const read = await listChangedRows(app.db, ['contacts'], 10)
  expect(read).toHaveLength(1)
  await removeChanges(app.db, read)
  await user.query('commit')
  await user.end()
  expect((await listChangedRows(app.db, ['contacts'], 10)).flatMap((one) => one.keys)).toEqual(['5'])
  await harness.query('truncate fillrate.changed_rows')
})

test('check reports defects, install repairs them, remove drops them', async () => {
  expect(await state()).toEqual({ state: 'right' })
  await harness.query('alter table crm.contacts disable trigger fillrate_follow_contacts_statement')
  expect(await state()).toMatchObject({ state: 'wrong', why: expect.stringContaining('disabled') })
  await app.follow('install', 'contacts')
  await harness.query('drop trigger fillrate_follow_contacts_row on crm.contacts')
  expect(await state()).toMatchObject({ state: 'wrong', why: expect.stringContaining('is missing') })
  const other = await harness.open({
    config: {
      ...config,
      sources: {
        contacts: { ...config.sources.contacts, inputs: { email: 't.email', linkedin_url: 't.linkedin' } },
      },
    },
  })
  expect((await other.follow('install', 'contacts')).columns).toEqual(['email', 'linkedin'])
  expect(await state()).toMatchObject({ state: 'wrong', why: expect.stringContaining('another mapping') })
  expect(await app.follow('remove', 'contacts')).toMatchObject({ changed: true })
  expect(await state()).toEqual({ state: 'missing' })
  expect(await app.follow('remove', 'contacts')).toMatchObject({ changed: false })
  await harness.query(`insert into crm.contacts (email) values ('not.followed@example.com')`)
  expect(await keys()).toEqual([])
})
