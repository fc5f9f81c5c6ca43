import pino from 'pino'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { readTriggerState } from '../../../src/sources/triggers/install.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'
import { onServer } from '../../support/server.ts'

const ROLE = 'fillrate_least'
const OWNER = 'fillrate_least_owner'
let url: string

/** The statements of docs/security.md, with the names of this test. */
async function grants(block: number): Promise<string> {
  const text = await readFile(new URL('../../../docs/security.md', import.meta.url), 'utf8')
  const sql = [...text.matchAll(/```sql\n([\s\S]*?)```/g)][block]?.[1]
  if (sql === undefined) throw new Error(`docs/security.md holds no block ${block} of SQL`)
  return sql
}

function urlOf(role: string): string {
  const own = new URL(harness.database.url)
  own.username = role
  own.password = 'least'
  return own.href
}

const harness = useHarness({
  config: withAccounts,
  prepare: ({ pool }) => createCrm(pool, 120, 10),
})
beforeAll(async () => {
  for (const role of [ROLE, OWNER])
    await onServer(inject('postgresUrl'), (client) =>
      client.query(`drop role if exists ${role}`).catch(() => {}),
    )
  // The privileges of the role that migrates.
  await harness.query(`create role ${OWNER} login password 'least'; grant usage, create on schema fillrate to ${OWNER};
                    grant all on all tables in schema fillrate to ${OWNER}`)
  await harness.query((await grants(0)).replaceAll('fillrate_app', ROLE).replaceAll(/'…'/g, `'least'`))
  await harness.query((await grants(1)).replaceAll('fillrate_owner', OWNER).replaceAll('fillrate_app', ROLE))
  await harness.query('alter table crm.contacts enable row level security')
  await harness.query((await grants(2)).replaceAll('fillrate_app', ROLE))
  url = urlOf(ROLE)
})
afterAll(async () => {
  for (const role of [ROLE, OWNER])
    await harness.database.pool.query(`drop owned by ${role} cascade; drop role ${role}`).catch(() => {})
})

test('the whole pipeline runs as the role of docs/security.md, which has no other privileges', async () => {
  const app = await harness.open({ environment: { databaseUrl: url } })
  for (const route of ['bulk', 'sync'] as const) {
    const report = await app.run(runRequest({ route }))
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, write_rejected: 0 } })
    if (route === 'bulk')
      await harness.query(
        `insert into crm.contacts (email) select 'later' || n || '@example.com' from generate_series(1, 30) n`,
      )
  }
  const undone = await app.undo({ run: 1, dryRun: false, signal: new AbortController().signal })
  expect(undone.changes.restored).toBeGreaterThan(0)
  const target = parseForgetTarget('email', 'person1@example.com')
  if (typeof target === 'string') throw new Error(target)
  const forgotten = await forgetSubject({ db: app.db, log: pino({ level: 'silent' }) }, [target], {
    dryRun: false,
  })
  expect(forgotten).toMatchObject({ erased: { lookups: 1 }, remaining: [] })
  await onServer(url, async (client) => {
    for (const forbidden of [
      `update crm.contacts set email = 'x'`,
      'delete from crm.contacts',
      'insert into crm.contacts (email) values (null)',
      'create table crm.mine (id int)',
      'drop table fillrate.rows',
      'create schema mine',
    ])
      await expect(client.query(forbidden)).rejects.toThrow(/permission denied|must be owner/)
  })
})

test('the role of docs/security.md installs, reinstalls and removes triggers', async () => {
  const app = await harness.open({ environment: { databaseUrl: urlOf(OWNER) } })
  const source = app.sources.get('contacts')
  if (!source) throw new Error('no source')
  for (let time = 0; time < 2; time++) {
    await app.follow('install', 'contacts')
    expect(await readTriggerState(app.db, source)).toEqual({ state: 'right' })
  }
  await harness.query('alter table crm.contacts disable trigger user')
  await app.follow('install', 'contacts')
  expect(await readTriggerState(app.db, source)).toEqual({ state: 'right' })
  await harness.query(`update crm.contacts set email = 'followed@example.com' where id = 1`)
  expect(await harness.query('select keys from fillrate.changed_rows')).toEqual([{ keys: ['1'] }])
  // As after an upgrade with new tables, before the grants are repeated: no change would be recorded.
  await harness.query(`revoke insert on fillrate.changed_rows_spare from ${OWNER}, ${ROLE}`)
  expect(await readTriggerState(app.db, source)).toMatchObject({
    state: 'wrong',
    why: expect.stringContaining(`${OWNER}, which installed them, may not INSERT`),
  })
  await expect(app.follow('install', 'contacts')).rejects.toThrow(
    'permission denied for table changed_rows_spare',
  )
  await harness.query(`grant insert on fillrate.changed_rows_spare to ${OWNER}, ${ROLE}`)
  expect(await app.follow('remove', 'contacts')).toMatchObject({ changed: true })
  expect(await readTriggerState(app.db, source)).toEqual({ state: 'missing' })
})

test('another role gets an error that names the role which installed the triggers', async () => {
  const owner = await harness.open({ environment: { databaseUrl: urlOf(OWNER) } })
  await owner.follow('install', 'contacts')
  const app = await harness.open({ environment: { databaseUrl: url } })
  for (const action of ['install', 'remove'] as const)
    await expect(app.follow(action, 'contacts')).rejects.toThrow(`They were installed by ${OWNER}`)
  await owner.follow('remove', 'contacts')
})

test('no role gains the privileges of the role that installed the triggers', async () => {
  const app = await harness.open()
  await app.follow('install', 'contacts')
  const before = await harness.count('crm.contacts')
  // A type owned by the role, whose cast to text would run with the privileges of the function's owner.
  await onServer(url, async (client) => {
    await client.query(`
      create type pg_temp.evil as (x int);
      create function pg_temp.steal(pg_temp.evil) returns text language plpgsql as
        $$ begin delete from crm.contacts; return 'stolen'; end $$;
      create cast (pg_temp.evil as text) with function pg_temp.steal(pg_temp.evil);
      create temp table bait (id pg_temp.evil, email text)`)
    await expect(
      client.query(`create trigger bait after insert on bait referencing new table as new_rows
                      for each statement execute function fillrate.follow_contacts();
                    insert into bait values (row(1), 'x')`),
    ).rejects.toThrow(/permission denied for function .*follow_contacts/)
  })
  expect(await harness.count('crm.contacts')).toBe(before)

  const source = app.sources.get('contacts')
  if (!source) throw new Error('no source')
  for (const [grantee, named] of [
    ['public', 'PUBLIC'],
    [ROLE, ROLE],
  ] as const) {
    await harness.query(`grant execute on function fillrate.follow_contacts to ${grantee}`)
    expect(await readTriggerState(app.db, source)).toMatchObject({
      state: 'wrong',
      why: expect.stringContaining(`${named} may execute`),
    })
    await app.follow('install', 'contacts')
    expect(await readTriggerState(app.db, source)).toEqual({ state: 'right' })
  }
  await harness.query('alter function fillrate.follow_contacts reset search_path')
  expect(await readTriggerState(app.db, source)).toMatchObject({ state: 'wrong' })
  await app.follow('install', 'contacts')
})
