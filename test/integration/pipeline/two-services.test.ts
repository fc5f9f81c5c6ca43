import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { expect, test } from 'vitest'
import { readEnvironment } from '../../../src/config/environment.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { openReceiver } from '../../../src/http/receiver.ts'
import { settleReceived } from '../../../src/pipeline/settle.ts'
import { findService, insertService } from '../../../src/store/services.ts'
import { toJobAddress } from '../../../src/webhook/address.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { POLICY } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'
import { testEnvironment } from '../../support/environment.ts'

// Two services on one database, of which one declares that its results are ordered, and the other keeps no order.

const EMAILS = ['a@x.example', 'b@x.example', 'c@x.example']
const SECRET = 'secret'
const log = pino({ level: 'silent' })
const toAdapter = (ordered: boolean) =>
  createService({ name: 'any', person: { path: '/' }, bulk: { path: '/bulk', ordered } })

const database = useTestDatabase()

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
    config: { services: [{ name: null, adapter: BUILT_IN_SERVICE }], serviceNames: [] },
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
    settleReceived({
      db,
      log,
      policy: POLICY,
      now: Date.now,
      service,
      adapter: toAdapter(service === ordered),
    })
  expect(await settle(ordered)).toMatchObject({ deliveries: 0 })
  expect(await settle(ready)).toMatchObject({ deliveries: 1, answered: 0 })
  const rows = await database.query('select service_id, state, quarantined_results from fillrate.deliveries')
  expect(rows).toEqual([{ service_id: ready, state: 'quarantined', quarantined_results: 3 }])
  expect(await findService(db, 'ordered.example')).toBe(ordered)
})

test('each of several services delivers to an address of its own, with its own secret, under its own number', async () => {
  const { db } = database
  const host = 'https://shared.example'
  const environment = {
    ...readEnvironment({
      DATABASE_URL: database.url,
      FILLRATE_ACME_BASE_URL: host,
      FILLRATE_ACME_WEBHOOK_SECRET: 'secret-of-acme',
      FILLRATE_OTHER_BASE_URL: host,
      FILLRATE_OTHER_WEBHOOK_SECRET: 'secret-of-other',
      FILLRATE_MUTE_BASE_URL: 'https://mute.example',
    }),
    port: 0,
  }
  const unsigned = createService({
    name: 'Unsigned',
    person: { path: '/' },
    bulk: { path: '/bulk' },
    webhook: { signature: 'none' },
  })
  const receiver = await openReceiver({
    db,
    environment,
    log,
    config: {
      services: [
        { name: 'acme', adapter: BUILT_IN_SERVICE },
        { name: 'other', adapter: unsigned },
        { name: 'mute', adapter: BUILT_IN_SERVICE },
      ],
      serviceNames: ['acme', 'other', 'mute'],
    },
    deliveries: { notify() {} },
    dashboard: null,
  })
  const ids = new Map<string, number>()
  for (const name of ['acme', 'other']) ids.set(name, await insertService(db, `shared.example/${name}`, []))
  const job = randomUUID()
  const deliver = async (path: string, body: string, signature = ''): Promise<number> => {
    const headers = { 'x-webhook-signature': signature, 'content-type': 'application/json' }
    return (await fetch(`${receiver.publicUrl}${path}`, { method: 'POST', body, headers })).status
  }
  const bodyOf = (event: string) =>
    JSON.stringify({ event_id: event, job_id: event, status: 'completed', results: [] })
  const signed = (event: string, secret: string) =>
    [bodyOf(event), signWebhook(bodyOf(event), secret)] as const

  expect(await deliver(`/webhooks/acme/${job}`, ...signed('a', 'secret-of-acme'))).toBe(200)
  expect(await deliver(`/webhooks/acme/${job}`, ...signed('b', 'secret-of-other'))).toBe(401)
  const address = toJobAddress(
    { publicUrl: '', service: 'other', job, secrets: ['secret-of-other'] },
    unsigned,
  )
  expect(address).toMatch(/^\/webhooks\/other\//)
  expect(await deliver(address, bodyOf('c'))).toBe(200)
  expect(await deliver(address.replace('/other/', '/acme/'), bodyOf('d'))).toBe(401)
  // Neither has the address of an only service; one without a secret, and one that there is not, have none.
  for (const path of ['enrichment', 'mute', 'nobody'])
    expect(await deliver(`/webhooks/${path}/${job}`, ...signed('e', 'secret-of-acme'))).toBe(404)
  await receiver.close()
  expect(
    await database.query(
      `select event_id, service_id from fillrate.deliveries where event_id in ('a', 'b', 'c', 'd', 'e') order by 1`,
    ),
  ).toEqual([
    { event_id: 'a', service_id: ids.get('acme') },
    { event_id: 'c', service_id: ids.get('other') },
  ])
})
