import { afterAll, beforeAll, expect, test } from 'vitest'
import { renderRowHistory } from '../../../src/cli/commands/explain.ts'
import { deleteRecords } from '../../../src/store/retention.ts'
import { storeMalformedResponses } from '../../../src/store/lookup-leases.ts'
import { onTerminal } from '../../unit/cli/terminal.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'
import { type LoopbackService, startLoopback } from '../../support/loopback.ts'

const PAGE = `<html>\n  <body>Back\u0000 soon</body>${'x'.repeat(20_000)}`
const REJECTION = '{"error":"mailbox of a role"}'

let service: LoopbackService
const harness = useHarness({
  config: { ...crmConfig, attempts: 1 },
  prepare: ({ pool }) => createCrm(pool, 3),
})
beforeAll(async () => {
  service = await startLoopback(({ body }, response) => {
    if (body.includes('person1@')) response.writeHead(422).end(REJECTION)
    else if (body.includes('person2@')) response.writeHead(200).end(PAGE)
    else response.writeHead(500).end('a plain fault')
  })
})
afterAll(() => service.close())

test('a malformed response is stored, bounded, and explained; a plain server error is not', async () => {
  const app = await harness.open({ environment: { baseUrl: service.url } })
  const report = await app.run(runRequest({ route: 'sync' }))
  expect(report.rows).toMatchObject({ picked: 3, rejected: 1, failed: 2 })

  const [rejected, unreadable, fault] = await Promise.all(
    ['1', '2', '3'].map((key) => app.explain('contacts', key)),
  )
  expect(rejected?.lookup?.malformed_response).toMatchObject({ status: 422, body: REJECTION })
  expect(unreadable?.lookup?.malformed_response).toMatchObject({
    status: 200,
    body: PAGE.slice(0, 2_000).replace('\0', ''),
  })
  expect(fault?.lookup?.malformed_response).toBeNull()
  if (unreadable === undefined) throw new Error('no history')
  const text = renderRowHistory(unreadable, onTerminal(100).output, Date.now()).join('\n')
  expect(text).toMatch(/Malformed +<html> <body>Back\s+soon<\/body>x+/)
  expect(text).toContain('HTTP 200')
  expect(text).not.toContain('x'.repeat(300))
})

test('the latest malformed response of a lookup stays, as long as a record would', async () => {
  const { db } = harness.database
  await harness.query(
    `insert into fillrate.lookups (kind, key, input, state, resolved_at)
     select 'domain', n, '{}', 'rejected', now() - interval '40 days' from unnest('{a,b}'::text[]) n`,
  )
  const [a = 0, b = 0] = await harness.scalar<number[]>(
    `select json_agg(id order by id) from fillrate.lookups where kind = 'domain'`,
  )
  const bodies = () =>
    harness.scalar(
      `select json_agg(malformed ->> 'body' order by id) from fillrate.lookups where kind = 'domain'`,
    )
  const answer = { status: 200, body: 'first' }
  await storeMalformedResponses(db, [
    { lookup: a, ...answer },
    { lookup: b, ...answer },
  ])
  // One that was erased meanwhile gets none.
  await storeMalformedResponses(db, [
    { lookup: 999_999, ...answer },
    { lookup: b, status: 200, body: 'second' },
  ])
  expect(await bodies()).toEqual(['first', 'second'])
  await harness.query(
    `insert into fillrate.rows (source, key, lookup_id, state, settled_at) values ('contacts', 'x', ${a}, 'rejected', now())`,
  )
  await deleteRecords(db, { recordsMs: 30 * 86_400_000, changesMs: 0 }, 0, 100)
  // The first one is kept for its row.
  expect(await bodies()).toEqual([null])
})

test('a lookup that is being erased gets no malformed response', async () => {
  const { pool, db } = harness.database
  await harness.query(
    `insert into fillrate.lookups (kind, key, input, state) values ('domain', 'erased', '{}', 'pending')`,
  )
  const id = await harness.scalar<number>(`select id::int from fillrate.lookups where key = 'erased'`)
  const erasing = await pool.connect()
  try {
    await erasing.query(`begin; delete from fillrate.lookups where id = ${id}`)
    const storing = storeMalformedResponses(db, [{ lookup: id, status: 200, body: 'late' }])
    await harness.database.untilBlocked()
    await erasing.query('commit')
    await storing
  } finally {
    erasing.release()
  }
  expect(await harness.count(`fillrate.lookups where malformed ->> 'body' = 'late'`)).toBe(0)
})
