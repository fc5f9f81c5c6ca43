import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const PEOPLE = 30

let database: TestDatabase
const requested: string[] = []
const server = createServer((request, response) => {
  requested.push(new URL(request.url ?? '', 'http://service').pathname)
  request.resume()
  response.writeHead(404, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: 'no match' }))
})
beforeAll(async () => {
  database = await createTestDatabase()
  await database.pool.query(`
    create table accounts (id int primary key, website text, industry text);
    create table contacts (id int primary key, email text, title text);
    insert into accounts select n, 'https://company' || n || '.example' from generate_series(1, 500) n;
    insert into contacts select n, 'p' || n || '@x.example' from generate_series(1, ${PEOPLE}) n`)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  server.close()
  await database.drop()
})

test('people are looked up while companies wait for a limit of their own', async () => {
  const stopping = new AbortController()
  await using fillrate = await createFillrate({
    config: {
      service: {
        adapter: defineService({
          name: 'By endpoint',
          person: { path: '/person', inputs: ['email'] },
          company: { path: '/company' },
          rate: { limit: { company: '2 per hour', person: ['1000 per minute', '5000 per day'] } },
          fields: { person: { title: 'text' }, company: { industry: 'text' } },
        }),
        concurrency: 4,
      },
      sources: {
        accounts: {
          kind: 'company',
          table: 'accounts',
          inputs: { domain: 't.website' },
          outputs: { industry: 'industry' },
        },
        contacts: {
          kind: 'person',
          table: 'contacts',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    },
    env: {
      DATABASE_URL: database.url,
      FILLRATE_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      FILLRATE_API_KEY: 'key',
    },
  })
  const plan = await fillrate.plan()
  expect(plan.time).toMatchObject({ limit: 1000, window_ms: 60_000, ms: 249 * 3_600_000 })
  const run = fillrate.run({ budget: 'unlimited', signal: stopping.signal })
  await expect.poll(() => requested.filter((path) => path === '/person').length).toBe(PEOPLE)
  await expect.poll(() => requested.filter((path) => path === '/company').length).toBe(2)
  stopping.abort()
  expect(await run).toMatchObject({ status: 'interrupted' })
  expect(requested).toHaveLength(PEOPLE + 2)
})
