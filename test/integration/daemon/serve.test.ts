import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openApp, type App } from '../../../src/app.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

let app: App
let at: string
let served: Promise<void>
const stop = new AbortController()
const errors: { readonly task?: string }[] = []

const harness = useHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 5) })
beforeAll(async () => {
  const log = pino(
    { level: 'error' },
    { write: (line) => errors.push(JSON.parse(line) as { task?: string }) },
  )
  app = await openApp({ config: harness.config, environment: harness.environment, log })
  const listening = Promise.withResolvers<string>()
  served = app.serve({ signal: stop.signal, onListening: (url) => listening.resolve(url ?? '') })
  at = await listening.promise
})
afterAll(async () => {
  stop.abort()
  await served
  await app.close()
})

test('a failed task restarts while the others and the receiver continue', async () => {
  const state = async (): Promise<string | undefined> =>
    (await harness.query<{ state: string }>('select state from fillrate.deliveries'))[0]?.state
  let ended = false
  served.then(
    () => (ended = true),
    () => (ended = true),
  )
  // A table that only the write-back reads is missing for a while.
  await harness.query('alter table fillrate.answered_lookups rename to elsewhere')
  await expect.poll(() => errors.map((error) => error.task)).toContain('write back contacts')
  const body = JSON.stringify({ event_id: randomUUID(), job_id: 'unknown', status: 'completed', results: [] })
  const { status } = await fetch(`${at}/webhooks/enrichment`, {
    method: 'POST',
    body,
    headers: { 'x-webhook-signature': signWebhook(body, harness.sandbox.webhookSecret) },
  })
  expect(status).toBe(200)
  await expect.poll(state).toBe('orphaned')
  await harness.query('alter table fillrate.elsewhere rename to answered_lookups')
  expect(ended).toBe(false)
})
