import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { Workers } from '../../../src/runs/workers.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'

const status: RateStatus = {
  state: 'fixed_window',
  limit: 100,
  windowAtMostMs: null,
  windowMs: 2_000,
  used: 950,
  permitted: 1_000,
  utilisation: 0.95,
  windowUsed: 40,
  nextWindowAt: null,
  nextWindowInMs: null,
  stallReason: null,
  throttled: 0,
  sharedKey: false,
  isRemote: true,
}

test('a follower reports the rate status of the leader', async () => {
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const reports: (RateStatus | null)[] = [null, status]
  // No delivery arrived meanwhile.
  const settled = { deliveries: 0, answered: 0, orphaned: 0, lagsMs: [], outcomes: [] }
  const transaction = { setIsolationLevel: () => transaction, execute: async () => settled }
  const db = { transaction: () => transaction }
  const client = { resetKeys: () => {} }
  const deps = { db, client, log: pino({ level: 'silent' }) } as unknown as Omit<CallDeps, 'limiter'>
  const workers = new Workers(deps, {
    sources: [],
    calls: {
      deps,
      elector: {
        scope: 'service key',
        acquire: async () => null,
        readStatus: async () => reports.shift() ?? null,
      },
    },
    signal: ending.signal,
  })
  const calls = workers
    .tasks()
    .find(({ name }) => name === 'call')
    ?.start()
  expect(workers.rate()).toBe(null)
  await expect.poll(() => workers.rate()?.utilisation).toBe(0.95)
  // There is no leader any more: the last report stands.
  await expect.poll(() => reports.length).toBe(0)
  expect(workers.rate()).toMatchObject({ limit: 100, used: 950 })
  ending.abort()
  await calls
})
