import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import * as submit from '../../../src/pipeline/submit.ts'
import * as runs from '../../../src/store/runs.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { QUEUE_PENDING } from '../../support/queue-pending.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

test('bulk calls take slots like single calls, and release them', async () => {
  const { db, pool } = database
  await runs.insertRun(db, {
    trigger: 'manual',
    sources: ['contacts'],
    options: { limit: null, budget: null, where: null, route: 'bulk' },
    owner: 'test',
    token: randomUUID(),
    leaseMs: 600_000,
  })
  await pool.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id)
     select 'email', e, jsonb_build_object('email', e), 'pending', 1
       from generate_series(1, 500) n, lateral (select 'p' || n || '@example.com' as e) named`,
  )
  await pool.query(QUEUE_PENDING)
  const [run] = await runs.listRunning(db)
  if (!run) throw new Error('the run should be live')
  const slots = new PrioritySemaphore(2)
  let [posted, inFlight, maxInFlight] = [0, 0, 0]
  const deps = {
    db,
    slots,
    log: pino({ level: 'silent' }),
    now: Date.now,
    random: () => 0,
    policy: {
      concurrency: 2,
      callTimeoutMs: 30_000,
      bulkMinimum: 50,
      bulkDeadlineMs: 3_600_000,
      attempts: 5,
    },
    breaker: {
      state: 'closed',
      nextProbeAt: null,
      execute: <T>(act: () => Promise<T>) => act(),
      takeFailed: () => [],
    },
    limiter: {
      acquire: (count: number) =>
        Promise.resolve({ count, use: () => ({ end: () => {} }), release: () => {} }),
    },
    client: {
      callsAllowedByKeys: Number.POSITIVE_INFINITY,
      submitBulk: async () => {
        posted++
        maxInFlight = Math.max(maxInFlight, ++inFlight)
        await nextTurn()
        inFlight--
        return { jobId: `job-${posted}`, requestIds: null, raw: null }
      },
    },
    webhookUrl: (job: string) => `http://127.0.0.1/${job}`,
  } as unknown as CallDeps

  // Two single calls are in flight.
  slots.take(2, 'normal')
  const ticking = submit.submitJobs(deps, run, { signal: new AbortController().signal })
  await expect.poll(() => slots.mayContinue('normal')).toBe(false)
  expect(posted).toBe(0)
  slots.release(2)
  expect(await ticking).toMatchObject({ submitted: 5, emails: 500, calls: 5 })
  expect(posted).toBe(5)
  expect(maxInFlight).toBe(2)
  expect(slots.free('normal')).toBe(2)
  const { rows } = await pool.query<{ state: string; jobs: number }>(
    'select state, count(*)::int as jobs from fillrate.jobs group by state',
  )
  expect(rows).toEqual([{ state: 'submitted', jobs: 5 }])
})
