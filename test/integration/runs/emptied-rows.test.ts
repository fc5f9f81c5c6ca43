import { expect, test } from 'vitest'
import { withDaemon } from '../../support/app-processes.ts'
import { personSource } from '../../support/crm.ts'
import { useFreshHarness } from '../../support/harness.ts'

// Rows whose cells that Fillrate wrote are all blank again: a reload, or a person's decision.

const outputs = { title: 'title', phone: 'phone' }
const configOf = (changes: object = {}, services: readonly string[] = ['acme']) => ({
  services: Object.fromEntries(services.map((name) => [name, {}])),
  sources: { people: personSource('people', outputs, changes) },
  budget: 'unlimited',
})

const harness = useFreshHarness({
  config: configOf(),
  services: {
    acme: { notFoundShare: 0, missingShare: 0 },
    beta: { notFoundShare: 0, missingShare: 0 },
    rare: { notFoundShare: 0.5, missingShare: 0, seed: 1 },
  },
  prepare: async ({ pool }) => {
    await pool.query(`
      create table people (id int primary key, email text, note text, title text, phone text);
      insert into people (id, email) select n, 'p' || n || '@example.com' from generate_series(1, 150) n;
      create table backup as select * from people;`)
  },
})

const RELOAD = 'insert into people select * from backup'
const EMPTY = 'update people set title = null, phone = null where id <= 40'
const filled = (): Promise<number> => harness.count('people where title is not null and phone is not null')

/** A nightly run, which makes no call after the first one. */
async function night(config: object = configOf()): Promise<Record<string, number>> {
  const before = harness.calls()
  const { run, rows, status } = await harness.run({ route: 'sync' }, { config })
  expect(status).toBe('completed')
  return { run, picked: rows.picked, calls: harness.calls() - before }
}

async function retryEmptied(config: object = configOf()) {
  const app = await harness.open({ config })
  const options = { reason: null, sources: [], dryRun: false, signal: new AbortController().signal }
  return app.retry({ ...options, states: ['emptied'] })
}

test.each([
  ['TRUNCATE and insert', `begin; truncate people; ${RELOAD}; commit`, {}],
  ['delete and insert', `delete from people; ${RELOAD}`, policies('tracked')],
  ['values that are all blank', `update people set title = ' ', phone = ''`, policies('always')],
])('a reload by %s is filled again by the next run, without a call', async (_, reload, changes) => {
  const config = configOf(changes)
  expect(await night(config)).toMatchObject({ picked: 150, calls: 150 })
  await harness.query(reload)
  expect(await night(config)).toMatchObject({ picked: 150, calls: 0 })
  expect(await filled()).toBe(150)
  expect(await night(config)).toMatchObject({ picked: 0, calls: 0 })
})

test('what a person has emptied stays blank, until `retry --state emptied` asks for it', async () => {
  await night()
  await harness.query(`${EMPTY}; update people set title = null where id = 50`)
  expect(await night()).toMatchObject({ picked: 0, calls: 0 })
  expect(await retryEmptied()).toMatchObject({ rows: 40, without_call: 40, skipped: 0 })
  expect(await night()).toMatchObject({ picked: 40, calls: 0 })
  expect(await filled()).toBe(149)
})

test('few rows are no reload, and neither is what was undone', async () => {
  await harness.query('delete from people where id > 60')
  await night()
  await harness.query(`update people set title = null, phone = null`)
  expect(await night()).toMatchObject({ picked: 0 })
  await harness.query('truncate people, fillrate.rows; ' + RELOAD)
  const { run = 0 } = await night()
  await harness.undo(run)
  for (const reload of ['select', 'select', 'truncate people; ' + RELOAD]) {
    await harness.query(reload)
    expect(await night()).toMatchObject({ picked: 0, calls: 0 })
  }
  expect(await retryEmptied()).toMatchObject({ rows: 0 })
  expect(await filled()).toBe(0)
})

test('a row that a full pass has seen gone is filled again once it is back, an undone one is not', async () => {
  const { run = 0 } = await night()
  await harness.query('delete from people where id <= 5')
  await night()
  await harness.query(`${RELOAD} where id <= 4; update people set title = 'typed' where id = 2`)
  expect(await night()).toMatchObject({ picked: 3, calls: 0 })
  expect(await filled()).toBe(148)
  await harness.undo(run)
  await harness.query('delete from people where id = 100')
  await night()
  await harness.query(`${RELOAD} where id = 100`)
  expect(await night()).toMatchObject({ picked: 0, calls: 0 })
})

test('a row without its record, or with a lookup that is due, is left to `retry`', async () => {
  await night()
  await harness.query(`
    delete from fillrate.lookups where key = 'p1@example.com';
    update fillrate.lookups set refresh_at = now() where key = 'p2@example.com';
    truncate people; ${RELOAD}`)
  expect(await night()).toMatchObject({ picked: 148, calls: 0 })
  expect(await retryEmptied()).toMatchObject({ rows: 2, without_call: 0 })
})

test('records of several services are written again, each as its step wrote it', async () => {
  const config = configOf({ services: ['rare', { name: 'beta', when: 'blank' }] }, ['acme', 'beta', 'rare'])
  Object.assign(config.sources.people, { outputs: { title: 'title', phone: { beta: 'phone' } } })
  await night(config)
  const before = await harness.checksum('people')
  expect(await filled()).toBe(150)
  await harness.query(`truncate people; ${RELOAD}`)
  expect(await night(config)).toMatchObject({ picked: 150, calls: 0 })
  expect(await harness.checksum('people')).toEqual(before)
})

test('a row that live sync has seen gone is filled again, without a call', async () => {
  const config = configOf({ follow: true })
  await night(config)
  const app = await harness.open({ config })
  await app.follow('install', 'people')
  await app.close()
  const before = harness.calls()
  await withDaemon(
    (changes) => harness.open({ ...changes, config }),
    async () => {
      await harness.query(`begin; delete from people where id <= 3; ${RELOAD} where id <= 3; commit`)
      await harness.query('delete from people where id = 4')
      await expect.poll(() => harness.count('fillrate.rows where deleted_at is not null')).toBe(1)
      await harness.query(`${RELOAD} where id = 4`)
      await expect.poll(filled).toBe(150)
      await harness.query(`update people set email = upper(email), title = null, phone = null where id = 9`)
      await harness.query(`update people set email = lower(email), note = 'x' where id = 9`)
      await expect.poll(() => harness.count('fillrate.changed_rows')).toBe(0)
    },
  )
  expect(harness.calls()).toBe(before)
  expect(await filled()).toBe(149)
})

function policies(policy: string): object {
  return { outputs: { title: { field: 'title', policy }, phone: { field: 'phone', policy } } }
}
