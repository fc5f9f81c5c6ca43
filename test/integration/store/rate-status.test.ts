import * as callers from '../../../src/store/leases.ts'
import * as rateLimits from '../../../src/store/rate-limits.ts'
import * as rateTold from '../../../src/store/rate-limits.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readLeaderStatus } from '../../../src/runs/leader.ts'
import { type TestDatabase, createTestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const scope = 'api.example 1a2b'
const limit = { limit: 100, windowMs: 2_000 }
const told: rateTold.RateStatus = {
  state: 'fixed_window',
  limit: 100,
  window_ms: 2_000,
  used: 950,
  permitted: 1_000,
  utilisation: 0.95,
  window_used: 40,
  next_window_at: null,
  stall_reason: null,
  throttled: 0,
  shared_key: false,
}

test('who does not hold the turn can neither note nor tell', async () => {
  const turn = { scope, token: crypto.randomUUID() }
  expect(await rateTold.saveExhausted(database.db, turn, limit, 60_000)).toBe(false)
  await rateTold.saveRateStatus(database.db, turn, told)
  expect(await rateTold.exhaustedFor(database.db, scope)).toBe(0)
  expect((await rateTold.readRateStatuses(database.db)).size).toBe(0)
})

test('who holds it can; the next caller reads how long to wait, and status whether it still calls', async () => {
  const { db } = database
  const turn = { scope, token: crypto.randomUUID() }
  await callers.acquireLease(db, scope, turn.token, 'somebody', 60_000)
  expect(await rateTold.saveExhausted(db, turn, limit, 60_000)).toBe(true)
  const wait = await rateTold.exhaustedFor(db, scope)
  expect(wait).toBeGreaterThan(30_000)
  expect(wait).toBeLessThanOrEqual(60_000)
  await rateTold.saveRateStatus(db, turn, told)
  expect((await rateTold.readRateStatuses(db)).get(scope)).toMatchObject({ ...told, live: true })

  expect(await readLeaderStatus(db, scope, 0)).toMatchObject({
    limit: 100,
    windowMs: 2_000,
    used: 950,
    isElsewhere: true,
  })
  expect(await readLeaderStatus(db, 'another scope', 0)).toBe(null)

  expect(await rateTold.saveExhausted(db, turn, limit, null)).toBe(true)
  expect(await rateTold.exhaustedFor(db, scope)).toBe(0)
  await callers.releaseLease(db, scope, turn.token)
  expect((await rateTold.readRateStatuses(db)).get(scope)?.live).toBe(false)
  expect(await readLeaderStatus(db, scope, 0)).toBe(null)
})

test('a limit of more than 2^31 calls, and a window of 30 days, are kept', async () => {
  const { db } = database
  const scope = 'api.example large'
  const turn = { scope, token: crypto.randomUUID() }
  const large = { limit: 3_000_000_000, windowMs: 30 * 86_400_000 }
  await rateLimits.saveRateLimit(db, scope, { ...large, observedAt: 1_700_000_000_000 })
  expect(await rateLimits.readRateLimit(db, scope)).toMatchObject(large)
  await callers.acquireLease(db, scope, turn.token, 'somebody', 60_000)
  expect(await rateTold.saveExhausted(db, turn, large, 60_000)).toBe(true)
})

test('a window that a later run could not make out is still known, while the limit is the same', async () => {
  const { db } = database
  const scope = 'api.example short'
  await rateLimits.saveRateLimit(db, scope, { limit: 60, windowMs: 3_000, observedAt: 1_000 })
  await rateLimits.saveRateLimit(db, scope, { limit: 60, windowMs: null, observedAt: 2_000 })
  expect(await rateLimits.readRateLimit(db, scope)).toEqual({ limit: 60, windowMs: 3_000, observedAt: 2_000 })
  await rateLimits.saveRateLimit(db, scope, { limit: 90, windowMs: null, observedAt: 3_000 })
  expect(await rateLimits.readRateLimit(db, scope)).toEqual({ limit: 90, windowMs: null, observedAt: 3_000 })
})
