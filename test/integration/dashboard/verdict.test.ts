import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// What a page says is wrong is what is wrong, now.

let at: string
let stop: Stop
const harness = useHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 30, 5) })
beforeAll(async () => {
  await harness.run()
  ;({ at, stop } = await serveApp(await harness.open()))
})
afterAll(() => stop())

const read = async (path: string): Promise<{ status: number; text: string }> => {
  const answer = await fetch(at + path, { headers: { accept: 'text/html' } })
  return { status: answer.status, text: await answer.text() }
}

test('a page that reads the table of a source says that the source does not fit, and not the schema', async () => {
  await harness.query('alter table crm.contacts rename column phone to telephone')
  try {
    const row = await read('/row?source=contacts&key=3')
    expect(row.status).toBe(409)
    expect(row.text).toContain('The source contacts does not fit the database')
    expect(row.text).toContain('telephone')
    // A plan leaves it out, as a run would, and says so.
    for (const path of ['/runs/start?source=contacts&budget=5', '/retry?source=contacts&state=failed'])
      expect([path, (await read(path)).text]).not.toEqual([path, expect.stringContaining('fillrate migrate')])
    expect(row.text).not.toContain('fillrate migrate')
    expect((await read('/row?source=accounts&key=3')).status).toBe(200)
  } finally {
    await harness.query('alter table crm.contacts rename column telephone to phone')
  }
  expect((await read('/row?source=contacts&key=3')).status).toBe(200)
})

test('what is not known is a dash, and no key of a service is shown', async () => {
  await harness.query(`insert into fillrate.services (id, host, name) values (7, 'never.example', 'never')`)
  await harness.query(
    `insert into fillrate.leases (scope, lease_token, leased_until, owner)
     values ('never.example 62af8704', gen_random_uuid(), now() + interval '1 minute', (select owner from fillrate.processes limit 1))`,
  )
  try {
    const row = async (): Promise<string> => {
      const { text } = await read('/')
      const words = text.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
      return words.slice(words.indexOf(' never '), words.indexOf(' never ') + 60)
    }
    await expect.poll(row, { timeout: 30_000 }).toMatch(/^ never idle – – – – –/)
    for (const path of ['/', '/system', '/runs/1', '/sources/contacts'])
      expect([path, (await read(path)).text]).not.toEqual([path, expect.stringContaining('62af8704')])
  } finally {
    await harness.query('delete from fillrate.leases')
    await harness.query('delete from fillrate.services where id = 7')
  }
})

test('what is wrong is never as old as counts that take long', async () => {
  // The process may have met the renamed column itself.
  await expect.poll(async () => (await read('/')).text, { timeout: 30_000 }).not.toContain('is left out')
  await sleep(3_000)
  const client = await harness.database.pool.connect()
  try {
    // The counts take two seconds, and are kept for twenty; the conditions for as long as they take.
    await client.query('begin; lock table fillrate.row_counts in access exclusive mode')
    const counted = read('/')
    await sleep(2_000)
    await client.query('rollback')
    expect((await counted).text).not.toContain('is left out')
    // Of a source that the process has not: it would end one of its own.
    await client.query(
      `insert into fillrate.conditions (kind, source, began_at, seen_at, is_reported)
       values ('source_broken', 'elsewhere', now(), now(), true)`,
    )
    await expect
      .poll(async () => (await read('/')).text, { timeout: 10_000 })
      .toContain('elsewhere is left out')
    await client.query('update fillrate.conditions set ended_at = now()')
    await expect.poll(async () => (await read('/')).text, { timeout: 10_000 }).not.toContain('is left out')
  } finally {
    client.release()
  }
})
