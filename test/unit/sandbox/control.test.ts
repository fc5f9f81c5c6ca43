import { describe, expect, it } from 'vitest'
import { describeSandbox } from '../../../src/sandbox/describe.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { bulk, call, company, emailsFrom, person, sandboxWith, startReceiver } from './support.ts'
import type { Sandbox } from '../../../src/sandbox/server.ts'

const plain = (sandbox: Sandbox, path: string) => call(sandbox, path, { headers: {} })
const change = (sandbox: Sandbox, body: unknown) => call(sandbox, '/_settings', { body, headers: {} })

describe('GET /_stats', () => {
  it('counts calls as the test made them', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ limit: 9, windowMs: 60_000, notFoundShare: 0 })
    await person(sandbox, 'a@acme.com')
    await person(sandbox, ' A@ACME.com')
    await person(sandbox, 'not an email')
    await company(sandbox, 'acme.com')
    await bulk(sandbox, ['b@acme.com', 'a@acme.com'], receiver.url)
    await bulk(sandbox, ['c@acme.com', 'wrong'], receiver.url)
    sandbox.configure({ notFoundShare: 1 })
    await person(sandbox, 'd@acme.com')
    sandbox.configure({ faults: { 500: 1 } })
    await person(sandbox, 'd@acme.com')
    await call(sandbox, '/v1/person/enrich', { body: { email: 'd@acme.com' }, headers: {} })
    sandbox.configure({ faults: {} })
    await call(sandbox, '/v1/person', { text: '{' })
    await person(sandbox, 'e@acme.com')
    await call(sandbox, '/elsewhere')
    await sandbox.idle()

    const stats = (await plain(sandbox, '/_stats?inputs=1')).json()
    expect(stats).toEqual(JSON.parse(JSON.stringify(sandbox.stats({ inputs: true }))))
    expect(stats).toMatchObject({
      requests: {
        'POST /v1/person/enrich': { 200: 2, 401: 1, 404: 1, 422: 1, 429: 1, 500: 1 },
        'POST /v1/person': { 400: 1 },
        'GET /v1/company/enrich': { 200: 1 },
        'POST /v1/person/bulk': { 202: 1, 422: 1 },
        other: { 404: 1 },
      },
      calls: { accepted: 9, refused: 1 },
      windows: [{ key: 1, limit: 9, accepted: 9, refused: 1 }],
      jobs: { accepted: 1, completed: 1, pending: 0 },
      deliveries: { attempts: 1, acknowledged: 1, answers: { 200: 1 } },
      faults: { 500: 1 },
    })
    expect(stats.inputs).toEqual({
      distinct: 8,
      tried: 11,
      requested_singly: 5,
      requested_in_bulk: 2,
      unanswered: 0,
      max_requested: 3,
      requested_more_than_once: 1,
      max_paid: 3,
      paid_more_than_once: 1,
      repeated: { 'a@acme.com': { tried: 3, single: 2, bulk: 1, unanswered: 0 } },
      all: {
        'a@acme.com': { tried: 3, single: 2, bulk: 1, unanswered: 0 },
        'not an email': { tried: 1, single: 1, bulk: 0, unanswered: 0 },
        'acme.com': { tried: 1, single: 1, bulk: 0, unanswered: 0 },
        'b@acme.com': { tried: 1, single: 0, bulk: 1, unanswered: 0 },
        'c@acme.com': { tried: 1, single: 0, bulk: 0, unanswered: 0 },
        wrong: { tried: 1, single: 0, bulk: 0, unanswered: 0 },
        'd@acme.com': { tried: 2, single: 1, bulk: 0, unanswered: 0 },
        'e@acme.com': { tried: 1, single: 0, bulk: 0, unanswered: 0 },
      },
    })
  })

  it('lists the inputs only on demand, and is itself not counted', async () => {
    const sandbox = await sandboxWith()
    await person(sandbox, 'a@acme.com')
    await plain(sandbox, '/_stats')
    const stats = (await plain(sandbox, '/_stats')).json()
    expect(stats.inputs).not.toHaveProperty('all')
    expect(Object.keys(Object(stats.requests))).toEqual(['POST /v1/person/enrich'])
  })

  it('starts over after POST /_reset, but the window continues', async () => {
    const sandbox = await sandboxWith({ limit: 2, windowMs: 60_000 })
    await person(sandbox, 'a@acme.com')
    expect((await call(sandbox, '/_reset', { method: 'POST', headers: {} })).status).toBe(200)
    expect(sandbox.stats()).toMatchObject({
      requests: {},
      calls: { accepted: 0 },
      windows: [],
      inputs: { distinct: 0 },
    })
    await person(sandbox, 'a@acme.com')
    expect((await person(sandbox, 'a@acme.com')).status).toBe(429)
    expect(sandbox.stats().windows).toMatchObject([{ accepted: 1, refused: 1 }])
  })
})

describe('/_settings', () => {
  it('shows the settings with the secrets masked', async () => {
    const sandbox = await sandboxWith({
      keys: ['a-long-key-1234', 'short'],
      webhookSecret: 'a-long-secret-5678',
    })
    const response = await plain(sandbox, '/_settings')
    expect(response.json()).toMatchObject({
      keys: ['…1234', '…'],
      webhookSecret: '…5678',
      limit: null,
      plan: null,
    })
    expect(response.text).not.toMatch(/a-long|short/)
  })

  it('changes them for later calls, from another process too', async () => {
    const sandbox = await sandboxWith()
    const response = await change(sandbox, { faults: { 503: 1 }, limit: 5 })
    expect(response.status).toBe(200)
    expect(response.json()).toMatchObject({ faults: { 503: 1 }, limit: 5 })
    expect((await person(sandbox, 'a@acme.com')).status).toBe(503)
    await change(sandbox, { faults: {} })
    expect((await person(sandbox, 'a@acme.com')).status).not.toBe(503)
    expect(sandbox.settings.limit).toBe(5)
  })

  it.each([
    [{ limit: 0 }, 'limit: expected a whole number from 1, or null, found 0'],
    [{ limits: 5 }, "unknown option 'limits'; the options are host"],
    [{ faults: { 501: 1 } }, "faults: unknown fault '501'"],
    [{ faults: { 500: 2 } }, 'faults.500: expected a share from 0 to 1, found 2'],
    [{ windows: 'sliding' }, 'windows: expected one of first, clock'],
    [{ jobDelayMs: [5, 1] }, 'jobDelayMs: expected milliseconds, or a list of two, the lower first'],
    [{ webhookUrl: 'http://example.com' }, 'webhookUrl: expected an http URL of this machine'],
    [{ keys: [1] }, 'keys: expected a list of texts, found something else'],
    [{ plan: 'x' }, 'plan: expected a function'],
    [{ port: 1 }, 'host and port cannot change'],
    [[], 'expected an object'],
    [7, 'expected an object'],
  ])('refuses %j and changes nothing', async (body, message) => {
    const sandbox = await sandboxWith()
    const before = sandbox.settings
    const response = await change(sandbox, body)
    expect(response.status).toBe(400)
    expect(Object(response.json().error).message).toContain(message)
    expect(sandbox.settings).toBe(before)
  })

  it('rejects other content types than JSON', async () => {
    const sandbox = await sandboxWith()
    const headers = { 'content-type': 'text/plain' }
    expect((await call(sandbox, '/_settings', { body: { limit: 1 }, headers })).status).toBe(400)
    expect((await call(sandbox, '/_settings', { text: '{', headers: {} })).status).toBe(400)
    expect((await plain(sandbox, '/_other')).status).toBe(404)
  })
})

describe('starting', () => {
  it('rejects an invalid option, and a port in use', async () => {
    await expect(startSandbox({ limit: -1 })).rejects.toThrow('Sandbox option limit: expected a whole number')
    const sandbox = await sandboxWith()
    await expect(startSandbox({ port: sandbox.port })).rejects.toThrow('EADDRINUSE')
  })

  it('is described with everything needed to use it', async () => {
    const sandbox = await sandboxWith({
      limit: 50,
      windowMs: 2_000,
      headersShare: 0.5,
      faults: { 500: 0.05, late: 0 },
    })
    const description = describeSandbox(sandbox)
    expect(description).toMatchObject({
      url: sandbox.url,
      keys: ['key-one'],
      webhook_secret: sandbox.webhookSecret,
    })
    const text = description.lines.join('\n')
    expect(text).toContain(`http://127.0.0.1:${sandbox.port}`)
    expect(text).toMatch(/key-one[^]*sandbox-webhook-secret[^]*50 calls in 2000 ms[^]*50% of responses/)
    expect(text).toMatch(/faults +500 5%$/m)
  })

  it('keeps its counts small: 20,000 inputs in bulk', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { lost: 1 } })
    for (let at = 0; at < 200; at += 1) await bulk(sandbox, emailsFrom(100, `firm${at}.com`), receiver.url)
    await sandbox.idle()
    expect(sandbox.stats().inputs).toMatchObject({
      distinct: 20_000,
      requested_in_bulk: 20_000,
      max_requested: 1,
    })
  })
})
