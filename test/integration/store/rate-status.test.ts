import * as rateLimits from '../../../src/store/rate-limits.ts'
import { expect, test } from 'vitest'
import { readLeaderStatus } from '../../../src/runs/leadership.ts'
import { readConditions } from '../../../src/store/conditions.ts'
import { useTestDatabase } from '../../support/database.ts'
import { FIXED_WINDOW_STATUS } from '../../support/rate-status.ts'

const database = useTestDatabase()

const scope = 'api.example 1a2b'
const limit = { limit: 100, windowMs: 2_000 }

test('only the leader can save exhaustion and status', async () => {
  const lease = { scope, service: 0, token: crypto.randomUUID() }
  expect(await rateLimits.saveExhausted(database.db, lease, { all: 60_000 })).toBe(false)
  await rateLimits.saveRateStatus(database.db, lease, FIXED_WINDOW_STATUS)
  expect((await rateLimits.readLeftRate(database.db, scope)).exhaustedFor).toEqual({})
  expect((await rateLimits.readRateStatuses(database.db)).size).toBe(0)
})

test('the next leader reads how long to wait, and status whether the leader is live', async () => {
  const { db } = database
  const lease = { scope, service: 0, token: crypto.randomUUID() }
  await rateLimits.acquireLease(db, scope, lease.token, 'another process', 60_000)
  expect(await rateLimits.saveExhausted(db, lease, { all: -1, company: 60_000 })).toBe(true)
  const { company, ...others } = (await rateLimits.readLeftRate(db, scope)).exhaustedFor
  expect(company).toBeGreaterThan(30_000)
  expect(company).toBeLessThanOrEqual(60_000)
  expect(others).toEqual({})
  await rateLimits.saveRateStatus(db, lease, FIXED_WINDOW_STATUS)
  expect((await rateLimits.readRateStatuses(db)).get(scope)).toMatchObject({
    ...FIXED_WINDOW_STATUS,
    isLive: true,
  })

  expect(await readLeaderStatus(db, scope, 0)).toMatchObject({
    limit: 100,
    windowMs: 2_000,
    used: 950,
    isRemote: true,
  })
  expect(await readLeaderStatus(db, 'another scope', 0)).toBe(null)

  // Stored while the clock was two hours ahead.
  await database.query(`update fillrate.rate_limits set exhausted_at = now() + interval '2 hours'`)
  expect((await rateLimits.readLeftRate(db, scope)).exhaustedFor).toEqual({})
  expect(await rateLimits.saveExhausted(db, lease, {})).toBe(true)
  expect((await rateLimits.readLeftRate(db, scope)).exhaustedFor).toEqual({})
  await rateLimits.releaseLease(db, scope, lease.token)
  expect((await rateLimits.readRateStatuses(db)).get(scope)?.isLive).toBe(false)
  expect(await readLeaderStatus(db, scope, 0)).toBe(null)
})

test('that calls wait is stored without a known limit, and is no limit', async () => {
  const { db } = database
  const scope = 'api.example unstated'
  const lease = { scope, service: 0, token: crypto.randomUUID() }
  await rateLimits.acquireLease(db, scope, lease.token, 'another process', 60_000)
  const unlimited = { ...FIXED_WINDOW_STATUS, limit: null, stallReason: null }
  await rateLimits.saveRateStatus(db, lease, unlimited)
  expect((await rateLimits.readRateStatuses(db)).get(scope)).toBeUndefined()
  const stalled = { ...unlimited, stallReason: 'the service refused a call (429)', stalledForMs: 12_000 }
  await rateLimits.saveRateStatus(db, lease, stalled)
  expect((await rateLimits.readRateStatuses(db)).get(scope)).toMatchObject({ ...stalled, isLive: true })
  expect(await rateLimits.readRateLimit(db, scope)).toBe(null)
  await database.query(`insert into fillrate.services (id, host, name) values (0, 'api.example', 'acme')`)
  expect(await readConditions(db, { schedules: null })).toMatchObject([
    { kind: 'throttled', service: 'acme', details: { cause: 'limit' } },
  ])
  expect(await rateLimits.listRateLimits(db)).not.toContainEqual(expect.objectContaining({ scope }))
  await rateLimits.saveRateStatus(db, lease, { ...stalled, ...limit })
  await rateLimits.saveRateStatus(db, lease, stalled)
  expect(await rateLimits.readRateLimit(db, scope)).toMatchObject(limit)
})

test('a limit of more than 2^31 calls and a window of 30 days are stored', async () => {
  const { db } = database
  const scope = 'api.example large'
  const lease = { scope, service: 0, token: crypto.randomUUID() }
  const large = { limit: 3_000_000_000, windowMs: 30 * 86_400_000 }
  await rateLimits.acquireLease(db, scope, lease.token, 'another process', 60_000)
  await rateLimits.saveRateStatus(db, lease, { ...FIXED_WINDOW_STATUS, ...large })
  expect(await rateLimits.readRateLimit(db, scope)).toMatchObject(large)
})

test('a window length that a later run could not measure stays known while the limit is the same', async () => {
  const { db } = database
  const scope = 'api.example short'
  const lease = { scope, service: 0, token: crypto.randomUUID() }
  await rateLimits.acquireLease(db, scope, lease.token, 'another process', 60_000)
  const readKnown = async (known: { readonly limit: number; readonly windowMs: number | null }) => {
    await rateLimits.saveRateStatus(db, lease, { ...FIXED_WINDOW_STATUS, ...known })
    const { limit, windowMs } = (await rateLimits.readRateLimit(db, scope)) ?? {}
    return { limit, windowMs }
  }
  await readKnown({ limit: 60, windowMs: 3_000 })
  expect(await readKnown({ limit: 60, windowMs: null })).toEqual({ limit: 60, windowMs: 3_000 })
  expect(await readKnown({ limit: 90, windowMs: null })).toEqual({ limit: 90, windowMs: null })
})
