import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'

let database: TestDatabase
let service: LoopbackService
let calls = 0
const called = new EventTarget()
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(`
    create table contacts (id int primary key, email text, title text);
    insert into contacts select n, 'p' || n || '@x.example' from generate_series(1, 200) n`)
  service = await startLoopback((_, response) => {
    calls++
    if (calls === 8) called.dispatchEvent(new Event('eighth'))
    setTimeout(() => answerJson(response, 404, { error: 'no match' }), 100)
  })
})
afterAll(async () => {
  await service.close()
  await database.drop()
})

test('closing during a run ends it, and stores every answer that is on its way', async () => {
  const fillrate = await createFillrate({
    config: {
      service: {
        adapter: defineService({
          name: 'Slow',
          person: { path: '/person', inputs: ['email'] },
          rate: { limit: '40 per second' },
          fields: { person: { title: 'text' } },
        }),
        concurrency: 4,
      },
      sources: {
        contacts: {
          kind: 'person',
          table: 'contacts',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    },
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: service.url, FILLRATE_API_KEY: 'key' },
  })
  const eighth = once(called, 'eighth')
  const report = fillrate.run({ budget: 'unlimited' })
  await eighth
  await fillrate.close()
  expect(await report).toMatchObject({ status: 'interrupted' })
  expect(await database.count(`fillrate.lookups where state = 'not_found'`)).toBe(calls)
  await expect(fillrate.run({ budget: 1 })).rejects.toThrow('Fillrate is closed')
})
