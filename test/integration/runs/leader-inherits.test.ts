import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { readTroubles } from '../../../src/actions/troubles.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import { LeaderElector } from '../../../src/runs/leader.ts'
import type { Leadership } from '../../../src/runs/leadership.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { saveRateLimit, saveRateStatus } from '../../../src/store/rate-limits.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

// What one leader has proven is not over because another one leads.

const SCOPE = 'api.example.com 62af8704'
let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(() => database.pool.query('truncate fillrate.rate_limits, fillrate.leases, fillrate.troubles'))

async function lead(owner: string): Promise<Leadership> {
  const log = pino({ level: 'silent' })
  const elector = new LeaderElector({
    db: database.db,
    scope: () => SCOPE,
    owner,
    log,
    reserve: 0,
    breaker: new Breaker(),
  })
  const leadership = await elector.acquire()
  if (leadership === null) throw new Error('another process is the leader')
  return leadership
}

/** A leader that was killed: it has reported, and its lease has expired. */
async function killLeader(status: Partial<RateStatus>): Promise<void> {
  const before = await lead('before')
  await saveRateLimit(database.db, SCOPE, { limit: 60, windowMs: 10_000, observedAt: Date.now() })
  const [lease] = await database.query<{ token: string }>('select lease_token as token from fillrate.leases')
  const reported = { ...before.limiter.state(), ...status }
  await saveRateStatus(database.db, { scope: SCOPE, token: lease?.token ?? '' }, reported)
  // Its own statements find no lease of theirs.
  await database.query(
    `update fillrate.leases set leased_until = now() - interval '1 s', lease_token = gen_random_uuid()`,
  )
  await before.end()
}

const listCodes = async (): Promise<string[]> =>
  (await readTroubles(database.db, { own: [], schedules: null })).map(({ code }) => code)

test.each([
  ['shared_key', { sharedKey: true }],
  ['banned', { state: 'banned' }],
] as const)('%s goes on while the leader changes, and with the next one', async (code, status) => {
  await killLeader(status)
  expect(await listCodes()).toEqual([code])
  const next = await lead('next')
  // Before its first report.
  expect(await listCodes()).toEqual([code])
  expect(next.limiter.state()).toMatchObject(status)
  await next.end()
})

test('another client that was seen an hour ago is not there because it was', async () => {
  await killLeader({ sharedKey: true })
  await database.query(`update fillrate.rate_limits set reported_at = now() - interval '1 hour'`)
  const next = await lead('next')
  expect(next.limiter.state().sharedKey).toBe(false)
  expect(await listCodes()).toEqual([])
  await next.end()
})
