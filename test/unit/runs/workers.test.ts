import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { Workers } from '../../../src/runs/workers.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'

const told: RateStatus = {
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
  const heard: (RateStatus | null)[] = [null, told]
  // No delivery arrived meanwhile.
  const settled = { deliveries: 0, answered: 0, orphaned: 0, lagsMs: [], outcomes: [] }
  const transaction = { setIsolationLevel: () => transaction, execute: async () => settled }
  const db = { transaction: () => transaction }
  const client = { resetKeys: () => {} }
  const deps = { db, client, log: pino({ level: 'silent' }) } as unknown as Omit<CallDeps, 'limiter'>
  const works = new Workers(deps, {
    sources: [],
    calls: {
      deps,
      elector: {
        scope: 'service key',
        acquire: async () => null,
        readStatus: async () => heard.shift() ?? null,
      },
    },
    signal: ending.signal,
  })
  const calling = works
    .tasks()
    .find(({ name }) => name === 'call')
    ?.start()
  expect(works.rate()).toBe(null)
  await expect.poll(() => works.rate()?.utilisation).toBe(0.95)
  // There is no leader any more: the last report stands.
  await expect.poll(() => heard.length).toBe(0)
  expect(works.rate()).toMatchObject({ limit: 100, used: 950 })
  ending.abort()
  await calling
})
