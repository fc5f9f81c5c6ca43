import { describe, expect, it } from 'vitest'
import { bulk, call, company, idle, person, sandboxWith, startReceiver } from './support.ts'
import type { Sandbox } from '../../../src/sandbox/server.ts'

const plain = (sandbox: Sandbox, path: string) => call(sandbox, path, { headers: {} })

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
    await idle(sandbox)

    const { all, ...inputs } = sandbox.stats({ inputs: true }).inputs
    const stats = (await plain(sandbox, '/_stats')).json()
    expect(stats).toMatchObject({
      requests: {
        'POST /v1/person/enrich': { 200: 2, 401: 1, 404: 1, 422: 1, 429: 1, 500: 1 },
        'POST /v1/person': { 400: 1 },
        'GET /v1/company/enrich': { 200: 1 },
        'POST /v1/person/bulk': { 202: 1, 422: 1 },
      },
      calls: { accepted: 9, refused: 1 },
      windows: [{ limit: 9, accepted: 9, refused: 1 }],
      jobs: { accepted: 1, completed: 1, pending: 0 },
      deliveries: { answers: { 200: 1 } },
      faults: { 500: 1 },
    })
    expect(stats['inputs']).toEqual(inputs)
    expect(inputs).toEqual({
      distinct: 5,
      requested_singly: 4,
      requested_in_bulk: 2,
      unanswered: 0,
      max_requested: 3,
      max_paid: 3,
      paid_more_than_once: 1,
    })
    expect(all).toEqual({
      'a@acme.com': { tried: 3, single: 2, bulk: 1, unanswered: 0 },
      'acme.com': { tried: 1, single: 1, bulk: 0, unanswered: 0 },
      'b@acme.com': { tried: 1, single: 0, bulk: 1, unanswered: 0 },
      'd@acme.com': { tried: 2, single: 1, bulk: 0, unanswered: 0 },
      'e@acme.com': { tried: 1, single: 0, bulk: 0, unanswered: 0 },
    })
  })
})
