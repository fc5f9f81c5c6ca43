import { expect, test } from 'vitest'
import { playDescribed } from '../../support/described-service.ts'

// What the tests of described services rest on: a stand-in that refused nothing would let all of them pass.

const ask = async (url: string, path: string): Promise<number> => (await fetch(`${url}${path}`)).status

test('a call above a window is refused as documented, and each endpoint has its own', async () => {
  const [narrow, wide] = [
    { calls: 3, ms: 3_600_000, endpoint: 'GET /a' },
    { calls: 5, ms: 3_600_000 },
  ]
  const standIn = await playDescribed({
    windows: [narrow, wide],
    refuse: (_, { calls }) => ({ status: 403, body: { calls } }),
    answer: () => ({ body: {} }),
  })
  const statuses: number[] = []
  for (const path of ['/a', '/a', '/a', '/a', '/b', '/b', '/b']) statuses.push(await ask(standIn.url, path))
  expect(statuses).toEqual([200, 200, 200, 403, 200, 200, 403])
  expect(standIn.refused()).toBe(2)
  expect(await (await fetch(`${standIn.url}/a`)).json()).toEqual({ calls: 3 })
})

test('an account bills parts of a credit exactly, up to what it has', async () => {
  const { account, billed, credits, billedAgain } = await playDescribed({ balance: 1, answer: () => ({}) })
  for (const _ of Array.from({ length: 9 })) account.bill('a', 0.1)
  expect(account.balance()).toBe(0.1)
  expect([account.bill('b', 1.1), account.bill('b', 0.1), account.bill('c', 0.1)]).toEqual([
    false,
    true,
    false,
  ])
  expect([...billed.keys()]).toEqual(['a', 'b'])
  expect(credits()).toBe(1)
  expect(billedAgain()).toEqual({ times: 8, credits: 0.8 })
})

test('of twenty calls one has a 5xx and one an error in a 200, and no request has two', async () => {
  const standIn = await playDescribed({
    faults: { inBody: () => ({ body: { error: true } }) },
    answer: () => ({ body: { error: false } }),
  })
  const statuses = new Map<string, number[]>()
  let errors = 0
  for (let n = 0; n < 60; n++) {
    const path = `/${n % 30}`
    const response = await fetch(`${standIn.url}${path}`)
    const { error } = (await response.json()) as { error: unknown }
    if (error === true) errors++
    statuses.set(path, [...(statuses.get(path) ?? []), error === false ? 0 : 1])
  }
  expect(standIn.faults()).toEqual({ failed: 3, erred: 3 })
  expect(errors).toBe(3)
  expect([...statuses.values()].every((faults) => faults.reduce((sum, one) => sum + one, 0) <= 1)).toBe(true)
})
