import { randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createService, USUAL_SIGNATURE } from '../../../src/domain/service/service.ts'
import type { HttpServer } from '../../../src/http/server.ts'
import { createWebhookReceiver } from '../../../src/pipeline/receive.ts'
import * as settle from '../../../src/pipeline/settle.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { openTestServer } from '../../support/app-processes.ts'
import { useTestDatabase } from '../../support/database.ts'
import { usedMemory } from '../../support/memory.ts'

const SECRET = 'a-secret-of-the-test'
const MIB = 1024 * 1024
const log = pino({ level: 'silent' })
const policy = { refreshAfterMs: 1, retryNotFoundAfterMs: 1, bulk: { graceMs: 1 } }
const database = useTestDatabase()
let server: HttpServer

beforeAll(async () => {
  server = await openTestServer({
    receive: createWebhookReceiver(database.db, [SECRET], BUILT_IN_SERVICE, async () => null),
    signature: () => BUILT_IN_SERVICE.signature,
  })
})
afterAll(() => server.close())

const event = (changes: object = {}): string =>
  JSON.stringify({ event_id: randomUUID(), job_id: 'none', status: 'completed', results: [], ...changes })

async function post(body: string | Buffer, headers: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${server.port}/webhooks/enrichment`, {
    method: 'POST',
    body: body as string,
    headers: {
      'content-type': 'application/json',
      'x-webhook-signature': signWebhook(body, SECRET),
      // The receiver may close an idle one just as it is used again.
      connection: 'close',
      ...headers,
    },
  })
  await response.arrayBuffer()
  return response.status
}
const stored = (): Promise<{ state: string; reason: string | null }[]> =>
  database.query(`select state, reason from fillrate.deliveries order by received_at, event_id`)

async function settleAll(): Promise<void> {
  const deps = { db: database.db, log, policy: policy as never, now: Date.now, adapter: BUILT_IN_SERVICE }
  while ((await settle.settleReceived(deps)).deliveries > 0);
}

test('every signed body is answered 200, stored, and settled without harm', async () => {
  const bodies = {
    deep: `{"event_id":"deep","results":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    number: event({ event_id: 'number', results: [{ request_id: '1', data: { confidence: '@' } }] }).replace(
      '"@"',
      '1e99999',
    ),
    prototype: `{"event_id":"prototype","__proto__":{"polluted":true},"results":[{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}]}`,
    invalid: Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x7d]),
    nul: event({
      event_id: 'nul',
      status: 'a\u0000b',
      results: [{ data: { email: 'n\u0000@example.com', confidence: 1 } }],
    }),
    surrogate: `{"event_id":"surrogate","status":"\\ud800","results":[{"data":{"title":"\\udfff","confidence":1}}]}`,
    empty: '',
    list: '[]',
  }
  const statuses: Record<string, number> = {}
  for (const [name, body] of Object.entries(bodies)) statuses[name] = await post(body)
  expect(Object.entries(statuses).filter(([, status]) => status !== 200)).toEqual([])
  await settleAll()
  const states = await stored()
  expect(states).toHaveLength(Object.keys(bodies).length)
  expect(new Set(states.map((one) => one.state))).toEqual(new Set(['orphaned', 'quarantined']))
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
})

test('unsigned or unacceptable requests are rejected at once and not stored', async () => {
  const before = (await stored()).length
  const body = event()
  const right = signWebhook(body, SECRET)
  const anew = JSON.stringify(JSON.parse(body), null, 1)
  expect(await post(anew, { 'x-webhook-signature': right })).toBe(401)
  expect(await post(body, { 'x-webhook-signature': `${right}, ${right}` })).toBe(401)
  expect(await post(gzipSync(body), { 'content-encoding': 'gzip' })).toBe(415)
  expect(await post(Buffer.from(body, 'utf16le'), { 'x-webhook-signature': right })).toBe(401)
  expect(await post(Buffer.alloc(11 * MIB, 'x'))).toBe(413)
  for (const method of ['GET', 'PUT', 'DELETE', 'PATCH'])
    expect((await fetch(`http://127.0.0.1:${server.port}/webhooks/enrichment`, { method })).status).toBe(404)
  expect(await stored()).toHaveLength(before)
})

test('a replayed body with a new event_id is signed and accepted, and changes nothing', async () => {
  await database.query(`
    with l as (insert into fillrate.lookups (kind, key, input, state, job_key) values ('email', 'a@example.com', '{"email":"a@example.com"}', 'pending', null) returning id)
    insert into fillrate.jobs (key, job_id, state, size, lookup_ids, deadline_at) select gen_random_uuid(), 'replayed', 'submitted', 1, array[id], now() + interval '1 h' from l;
    update fillrate.lookups set state = 'submitted', job_key = (select key from fillrate.jobs where job_id = 'replayed')`)
  const results = [{ request_id: 'a@example.com', data: { title: 'First', confidence: 0.9 } }]
  const look = async (): Promise<unknown> => {
    await settleAll()
    return await database.query(
      `select state, record, resolved_at from fillrate.lookups where key = 'a@example.com'`,
    )
  }
  expect(await post(event({ job_id: 'replayed', results }))).toBe(200)
  const first = await look()
  expect(first).toMatchObject([{ state: 'found', record: { title: 'First' } }])
  const other = [{ request_id: 'a@example.com', data: { title: 'Replayed', confidence: 0.9 } }]
  expect(await post(event({ job_id: 'replayed', results: other }))).toBe(200)
  expect(await look()).toEqual(first)
})

test('a thousand silent and slow senders delay no real delivery', async () => {
  const open = (): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect(server.port, '127.0.0.1', () => resolve(socket))
      socket.on('error', reject)
    })
  const sockets = await Promise.all(Array.from({ length: 1_000 }, open))
  try {
    for (const [n, socket] of sockets.entries())
      if (n % 2 === 0)
        socket.write(`POST /webhooks/enrichment HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n{"slow`)
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(event())))
    expect(new Set(answers)).toEqual(new Set([200]))
  } finally {
    for (const socket of sockets) socket.on('error', () => {}).destroy()
  }
})

test('the memory of rejected bodies is released', async () => {
  const body = Buffer.alloc(10 * MIB, 'x')
  const wrong = { 'x-webhook-signature': signWebhook('else', SECRET) }
  expect(await post(body, wrong)).toBe(401)
  const before = usedMemory()
  for (let n = 0; n < 12; n++) await post(body, wrong)
  for (let look = 0; look < 20 && usedMemory() - before > 20 * MIB; look++)
    await new Promise((resolve) => setTimeout(resolve, 20))
  expect(usedMemory() - before).toBeLessThan(20 * MIB)
})

test('a delivery is verified as the description of the service says', async () => {
  const signature = { ...USUAL_SIGNATURE, header: 'x-acme', algorithm: 'sha1' as const }
  const acme = createService({ name: 'Acme', person: { path: '/find' }, webhook: { signature } })
  const receiver = await openTestServer({
    receive: createWebhookReceiver(database.db, [SECRET], acme, async () => null),
    signature: () => acme.signature,
  })
  const body = event()
  const { status } = await fetch(`http://127.0.0.1:${receiver.port}/webhooks/enrichment`, {
    method: 'POST',
    body,
    headers: { 'x-acme': signWebhook(Buffer.from(body), SECRET, signature) },
  })
  expect(status).toBe(200)
  await receiver.close()
})
