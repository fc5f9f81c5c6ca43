import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { openReceiver } from '../../../src/http/receiver.ts'
import type { RunPolicy } from '../../../src/pipeline/deps.ts'
import { settleReceived } from '../../../src/pipeline/settle.ts'
import { findService, insertService } from '../../../src/store/services.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { testEnvironment } from '../../support/environment.ts'

// Two services on one database, of which one declares that its results are ordered, and the other keeps no order.

const EMAILS = ['a@x.example', 'b@x.example', 'c@x.example']
const SECRET = 'secret'
const log = pino({ level: 'silent' })
const policy = { attempts: 5, bulkGraceMs: 0, refreshAfterMs: 1e9, retryNotFoundAfterMs: 1e9 } as RunPolicy
const toAdapter = (ordered: boolean) =>
  createService({ name: 'any', person: { path: '/' }, bulk: { path: '/bulk', ordered } })

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

test('a delivery is settled only by the service that received it, in its own reading', async () => {
  const { db } = database
  const numbers: number[] = []
  for (const host of ['ready.example', 'ordered.example']) numbers.push(await insertService(db, host, []))
  const [ready = -1, ordered = -1] = numbers
  const key = randomUUID()
  await database.query(
    `with made as (
       insert into fillrate.lookups (kind, key, service_id, input, state, job_key)
       select 'email', email, $3, jsonb_build_object('email', email), 'submitted', $1 from unnest($2::text[]) email
       returning id
     )
     insert into fillrate.jobs (key, job_id, state, size, lookup_ids, submitted_at, deadline_at)
     select $1, 'j', 'submitted', count(*), array_agg(id order by id), now(), now() + interval '6 h' from made`,
    [key, EMAILS, ready],
  )
  const environment = { ...testEnvironment(database.url, 'https://ready.example'), webhookSecrets: [SECRET] }
  const receiver = await openReceiver({
    db,
    environment,
    log,
    service: () => BUILT_IN_SERVICE,
    deliveries: { notify() {} },
    dashboard: null,
  })
  const results = EMAILS.toReversed().map((email) => ({ data: { title: email, confidence: 0.9 } }))
  const body = JSON.stringify({ event_id: '1', job_id: 'j', status: 'completed', results })
  const headers = { 'x-webhook-signature': signWebhook(body, SECRET) }
  const { status } = await fetch(`${receiver.publicUrl}/webhooks/enrichment/${key}`, {
    method: 'POST',
    body,
    headers,
  })
  await receiver.close()
  expect(status).toBe(200)

  const settle = (service: number) =>
    settleReceived({ db, log, policy, now: Date.now, service, adapter: toAdapter(service === ordered) })
  expect(await settle(ordered)).toMatchObject({ deliveries: 0 })
  expect(await settle(ready)).toMatchObject({ deliveries: 1, answered: 0 })
  const rows = await database.query('select service_id, state, quarantined_results from fillrate.deliveries')
  expect(rows).toEqual([{ service_id: ready, state: 'quarantined', quarantined_results: 3 }])
  expect(await findService(db, 'ordered.example')).toBe(ordered)
})
