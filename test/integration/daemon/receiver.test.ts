import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { crmConfig, createCrm } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

const OLD = 'an-older-secret'
let url: string
let stop: Stop

const harness = useHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 10) })
beforeAll(async () => {
  const app = await harness.open({ environment: { webhookSecrets: [harness.sandbox.webhookSecret, OLD] } })
  const served = await serveApp(app)
  ;({ stop } = served)
  url = `${served.at}/webhooks/enrichment`
})
afterAll(() => stop())

const event = (changes: object = {}): string =>
  JSON.stringify({ event_id: randomUUID(), job_id: 'unknown', status: 'completed', results: [], ...changes })

async function post(
  body: string | Buffer,
  options: { secret?: string; type?: string } = {},
): Promise<number> {
  const signature = signWebhook(body, options.secret ?? harness.sandbox.webhookSecret)
  const response = await fetch(url, {
    method: 'POST',
    body: body as string,
    headers: { 'content-type': options.type ?? 'application/json', 'x-webhook-signature': signature },
  })
  await response.arrayBuffer()
  return response.status
}

async function stored(): Promise<{ state: string; reason: string | null }[]> {
  const rows = await harness.query<{ state: string; reason: string | null }>(
    'select state, reason from fillrate.deliveries order by received_at',
  )
  return rows
}

test('a delivery is stored before it is acknowledged, with either secret', async () => {
  expect(await post(event())).toBe(200)
  expect(await post(event(), { secret: OLD })).toBe(200)
  expect(await stored()).toHaveLength(2)
})

test('an event is stored once, also if it arrives concurrently', async () => {
  const before = (await stored()).length
  const body = event()
  expect(await Promise.all(Array.from({ length: 8 }, () => post(body)))).toEqual(
    Array.from({ length: 8 }, () => 200),
  )
  expect(await stored()).toHaveLength(before + 1)
})

test('a signed but unreadable delivery is stored with the reason', async () => {
  const unreadable = Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])
  expect(await post(unreadable)).toBe(200)
  expect(await post('{"status":"completed"}', { type: 'text/plain' })).toBe(200)
  const rows = await harness.query<{ raw: Buffer; reason: string }>(
    `select raw, reason from fillrate.deliveries where state = 'quarantined' order by received_at`,
  )
  expect(rows.map((row) => row.reason)).toEqual(['the body is not UTF-8', 'there is no event_id'])
  expect(rows[0]?.raw.equals(unreadable)).toBe(true)
})

test('a body over 10 MiB is rejected, one of 10 MiB accepted', async () => {
  const padded = (bytes: number): string => {
    const empty = event({ pad: '' })
    return empty.replace('"pad":""', `"pad":"${'x'.repeat(bytes - empty.length)}"`)
  }
  expect(await post(padded(10 * 1024 * 1024))).toBe(200)
  expect(await post(padded(10 * 1024 * 1024 + 1))).toBe(413)
})
