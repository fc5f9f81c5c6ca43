import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LEASE_MS } from '../../../src/pipeline/deps.ts'
import { Leases } from '../../../src/pipeline/look-up/leases.ts'
import { openDatabase, type Database } from '../../../src/store/open.ts'

let db: Database
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  // Nobody listens there.
  db = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/none' })
})
afterEach(async () => {
  vi.useRealTimers()
  await db.destroy()
})

test('leases that can not be extended abort their calls while they are certainly still ours', async () => {
  const leases = new Leases({ db, log: pino({ level: 'silent' }) })
  leases.hold(crypto.randomUUID(), 3, performance.now())
  let waited = 0
  for (; !leases.lost.aborted && waited < 2 * LEASE_MS; waited += 500) {
    vi.advanceTimersByTime(500)
    // The attempt to connect is a real one.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  leases.end()
  expect(leases.lost.aborted).toBe(true)
  expect(waited).toBeLessThanOrEqual(LEASE_MS)
})

test('without a lease there is nothing to abort', () => {
  const leases = new Leases({ db, log: pino({ level: 'silent' }) })
  vi.advanceTimersByTime(3 * LEASE_MS)
  leases.end()
  expect(leases.lost.aborted).toBe(false)
})
