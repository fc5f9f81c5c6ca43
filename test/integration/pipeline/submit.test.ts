import { setImmediate as nextTurn } from 'node:timers/promises'
import pino from 'pino'
import { expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import * as submit from '../../../src/pipeline/submit.ts'
import * as runs from '../../../src/store/runs.ts'
import { useFreshDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'

const database = useFreshDatabase()

/** A run with 500 emails to submit, and a service that accepts all jobs. */
async function openRun(
  slots: PrioritySemaphore,
  permit: (wanted: number) => number = (wanted) => wanted,
): Promise<{
  readonly deps: CallDeps
  readonly run: runs.RunningRun
  readonly calls: { posted: number; maxInFlight: number }
}> {
  const { db } = database
  await beginRun(db, { route: 'bulk' })
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id)
     select 'email', e, jsonb_build_object('email', e), 'pending', 1
       from generate_series(1, 500) n, lateral (select 'p' || n || '@example.com' as e) named`,
  )
  const [run] = await runs.listRunning(db)
  if (!run) throw new Error('the run should be live')
  const calls = { posted: 0, maxInFlight: 0 }
  let inFlight = 0
  const deps = {
    db,
    slots,
    log: pino({ level: 'silent' }),
    now: Date.now,
    random: () => 0,
    policy: {
      concurrency: 2,
      timeoutMs: 30_000,
      bulk: { minimum: 50, deadlineMs: 3_600_000 },
      attempts: 5,
    },
    breaker: {
      state: 'closed',
      nextProbeAt: null,
      execute: <T>(act: () => Promise<T>) => act(),
      takeFailed: () => [],
    },
    limiter: {
      acquire: async (wanted: number) => ({
        count: permit(wanted),
        use: () => ({ end: () => {} }),
        release: () => {},
      }),
    },
    client: {
      callsAllowedByKeys: Number.POSITIVE_INFINITY,
      submitBulk: async () => {
        calls.posted++
        calls.maxInFlight = Math.max(calls.maxInFlight, ++inFlight)
        await nextTurn()
        inFlight--
        return { jobId: `job-${calls.posted}`, requestIds: null, raw: null }
      },
    },
    service: 0,
    adapter: BUILT_IN_SERVICE,
    webhookUrl: (job: string) => `http://127.0.0.1/${job}`,
  } as unknown as CallDeps
  return { deps, run, calls }
}

test('bulk calls take slots like single calls, and release them', async () => {
  const slots = new PrioritySemaphore(2)
  const { deps, run, calls } = await openRun(slots)
  // Two single calls are in flight.
  slots.take(2, 'normal')
  const ticking = submit.submitJobs(deps, run, { signal: new AbortController().signal })
  await expect.poll(() => slots.mayContinue('normal')).toBe(false)
  expect(calls.posted).toBe(0)
  slots.release(2)
  expect(await ticking).toMatchObject({ submitted: 5, inputs: 500, calls: 5 })
  expect(calls.posted).toBe(5)
  expect(calls.maxInFlight).toBe(2)
  expect(slots.free('normal')).toBe(2)
  const rows = await database.query<{ state: string; jobs: number }>(
    'select state, count(*)::int as jobs from fillrate.jobs group by state',
  )
  expect(rows).toEqual([{ state: 'submitted', jobs: 5 }])
})
