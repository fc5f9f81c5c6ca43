import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'
import { createPeopleTable, openService } from '../../support/people-table.ts'

const database = useTestDatabase()
let service: LoopbackService
let calls = 0
const called = new EventTarget()
beforeAll(async () => {
  service = await startLoopback((_, response) => {
    calls++
    if (calls === 8) called.dispatchEvent(new Event('eighth'))
    setTimeout(() => answerJson(response, 404, { error: 'no match' }), 100)
  })
})
afterAll(() => service.close())

test('closing during a run ends it, and stores every answer that is on its way', async () => {
  const { sources } = await createPeopleTable(database, 200)
  const adapter = defineService({
    name: 'Slow',
    person: { path: '/person', inputs: ['email'] },
    rate: { limit: '40 per second' },
    fields: { person: { title: 'text' } },
  })
  const fillrate = await openService(database, adapter, sources, service, { concurrency: 4 })
  const eighth = once(called, 'eighth')
  const report = fillrate.run({ budget: 'unlimited' })
  await eighth
  await fillrate.close()
  expect(await report).toMatchObject({ status: 'interrupted' })
  expect(await database.count(`fillrate.lookups where state = 'not_found'`)).toBe(calls)
  await expect(fillrate.run({ budget: 1 })).rejects.toThrow('Fillrate is closed')
})
