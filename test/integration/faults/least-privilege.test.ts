import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import pino from 'pino'
import { forget } from '../../../src/pipeline/forget/forget.ts'
import { readTarget } from '../../../src/pipeline/forget/target.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'
import { onServer } from '../../support/server.ts'

const ROLE = 'fillrate_least'
let harness: Harness
let url: string

/** The statements that docs/security.md gives, with the names of this test. */
async function grants(): Promise<string> {
  const text = await readFile(new URL('../../../docs/security.md', import.meta.url), 'utf8')
  const sql = /```sql\n([\s\S]*?)```/.exec(text)?.[1]
  if (sql === undefined) throw new Error('docs/security.md holds no SQL')
  return sql
}

beforeAll(async () => {
  harness = await startHarness({
    config: withAccounts,
    prepare: ({ pool }) => createCrm(pool, 120, 10),
  })
  const { pool } = harness.database
  await onServer(inject('postgresUrl'), (client) =>
    client.query(`drop role if exists ${ROLE}`).catch(() => {}),
  )
  await pool.query((await grants()).replaceAll('fillrate_app', ROLE).replaceAll(/'…'/g, `'least'`))
  const own = new URL(harness.database.url)
  own.username = ROLE
  own.password = 'least'
  url = own.href
})
afterAll(async () => {
  await harness.database.pool.query(`drop owned by ${ROLE}; drop role ${ROLE}`).catch(() => {})
  await harness.close()
})

test('the whole pipeline runs as the role of docs/security.md, which can do nothing else', async () => {
  const app = await harness.open({ environment: { databaseUrl: url } })
  for (const route of ['bulk', 'sync'] as const) {
    const report = await app.run(runRequest({ route }))
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, write_rejected: 0 } })
    if (route === 'bulk')
      await harness.database.pool.query(
        `insert into crm.contacts (email) select 'later' || n || '@example.com' from generate_series(1, 30) n`,
      )
  }
  const undone = await app.undo({ run: 1, dryRun: false, signal: new AbortController().signal })
  expect(undone.changes.restored).toBeGreaterThan(0)
  const target = readTarget('email', 'person1@example.com')
  if (typeof target === 'string') throw new Error(target)
  const forgotten = await forget({ db: app.db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
  expect(forgotten).toMatchObject({ erased: { lookups: 1 }, left: [] })
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
