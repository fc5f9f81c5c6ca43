import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LEASE_MS } from '../../../src/pipeline/deps.ts'
import { LeaseKeeper } from '../../../src/pipeline/look-up/lookup-queue.ts'
import { openDatabase, type Database } from '../../../src/store/open.ts'

/** What the extension returns in place of a query, if a test sets it. */
let extended: (() => Set<string>) | null = null
vi.mock(import('../../../src/store/lookup-leases.ts'), async (original) => {
  const store = await original()
  return {
    ...store,
    extendLookupLeases: async (...args) => extended?.() ?? store.extendLookupLeases(...args),
  }
})

let db: Database
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  // No server listens there.
  db = openDatabase({ url: 'postgres://unused@127.0.0.1:1/none' })
})
afterEach(async () => {
  extended = null
  vi.useRealTimers()
  await db.destroy()
})

test('leases that cannot be extended abort their calls while they are certainly still ours', async () => {
  const keeper = new LeaseKeeper({ db, log: pino({ level: 'silent' }) })
  const token = crypto.randomUUID()
  keeper.track(token, 3, performance.now())
  const lost = keeper.lostSignal(token)
  let waited = 0
  for (; !lost.aborted && waited < 2 * LEASE_MS; waited += 500) {
    vi.advanceTimersByTime(500)
    // The connection attempt is real.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  keeper.stop()
  expect(lost.aborted).toBe(true)
  expect(waited).toBeLessThanOrEqual(LEASE_MS)
})

test('leases missing from an extension are noticed and aborted in time; the others continue', async () => {
  const [held, expired] = [crypto.randomUUID(), crypto.randomUUID()]
  const keeper = new LeaseKeeper({ db, log: pino({ level: 'silent' }) })
  keeper.track(held, 2, performance.now())
  keeper.track(expired, 2, performance.now())
  const [kept, lost] = [keeper.lostSignal(held), keeper.lostSignal(expired)]
  extended = () => new Set([held])
  for (let waited = 0; waited < LEASE_MS; waited += 500) {
    vi.advanceTimersByTime(500)
    await new Promise((resolve) => setImmediate(resolve))
  }
  keeper.stop()
  expect([kept.aborted, lost.aborted]).toEqual([false, true])
})
