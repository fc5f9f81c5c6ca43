import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createBatcher } from '../../../src/util/batcher.ts'
import { allowedByBreaker } from '../../../src/pipeline/look-up/call-service.ts'
import { estimateCalls } from '../../../src/actions/plan/plan.ts'
import { decideCompletion, isOutageTooLong, nextReadAt } from '../../../src/runs/completion.ts'
import { runExitCode } from '../../../src/runs/report.ts'
import type { BreakerState } from '../../../src/service/breaker.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'

describe('a run', () => {
  const still = {
    picking: false,
    ownWaiting: 0,
    awaitingDelivery: 0,
    locked: 0,
    others: 0,
    unpayable: 0,
    later: 0,
    isDown: false,
    idleMs: 5_000,
    waitMs: 60_000,
    lockedWaitMs: 10_000,
  }
  test('is done when none of its rows waits and no other run holds rows of its sources', () => {
    expect(decideCompletion(still)).toBe('done')
    expect(decideCompletion({ ...still, picking: true })).toBe('continue')
    expect(decideCompletion({ ...still, others: 3 })).toBe('continue')
  })
  test('waits for deliveries as long as requested', () => {
    const waiting = { ...still, ownWaiting: 100, awaitingDelivery: 100 }
    expect(decideCompletion(waiting)).toBe('continue')
    expect(decideCompletion({ ...waiting, idleMs: 60_001 })).toBe('timed_out')
    expect(decideCompletion({ ...waiting, waitMs: 0 })).toBe('timed_out')
  })
  test('does not give up rows that can still be requested by single calls', () => {
    expect(decideCompletion({ ...still, ownWaiting: 100, awaitingDelivery: 99, idleMs: 1e9 })).toBe(
      'continue',
    )
  })
  test('does not wait for late retries, but does for other lookups', () => {
    expect(decideCompletion({ ...still, ownWaiting: 29, later: 29 })).toBe('done')
    expect(decideCompletion({ ...still, ownWaiting: 30, later: 29 })).toBe('continue')
    expect(decideCompletion({ ...still, ownWaiting: 30, later: 29, awaitingDelivery: 1 })).toBe('continue')
    expect(decideCompletion({ ...still, ownWaiting: 30, later: 29, awaitingDelivery: 1, waitMs: 0 })).toBe(
      'timed_out',
    )
  })
  test('waits out an outage for a quarter of an hour, or for a minute if it never had a response', () => {
    expect([isOutageTooLong(14 * 60_000, true), isOutageTooLong(16 * 60_000, true)]).toEqual([false, true])
    expect([isOutageTooLong(59_000, false), isOutageTooLong(61_000, false)]).toEqual([false, true])
    expect(decideCompletion({ ...still, ownWaiting: 3, isDown: true })).toBe('done')
  })
  test('ends within a bound when other transactions keep rows locked', () => {
    const locked = { ...still, ownWaiting: 3, locked: 3 }
    expect(decideCompletion({ ...locked, idleMs: 9_999 })).toBe('continue')
    expect(decideCompletion({ ...locked, idleMs: 10_000 })).toBe('done')
    expect(decideCompletion({ ...locked, idleMs: 1, waitMs: 0 })).toBe('done')
    expect(decideCompletion({ ...locked, ownWaiting: 4, idleMs: 1e9 })).toBe('continue')
    expect(decideCompletion({ ...locked, ownWaiting: 4, awaitingDelivery: 1, idleMs: 10_000 })).toBe(
      'continue',
    )
    expect(decideCompletion({ ...locked, ownWaiting: 4, awaitingDelivery: 1, idleMs: 60_001 })).toBe(
      'timed_out',
    )
  })
  test('is done when its budget cannot pay the remaining rows', () => {
    expect(decideCompletion({ ...still, ownWaiting: 5, unpayable: 5 })).toBe('done')
  })
})

test('the exit code reflects the outcome', () => {
  const rows = { picked: 1, ...Object.fromEntries(ROW_STATES.map((state) => [state, 0])) } as Parameters<
    typeof runExitCode
  >[0]['rows']
  expect(runExitCode({ status: 'completed', rows })).toBe(0)
  expect(runExitCode({ status: 'completed', rows: { ...rows, not_found: 5, invalid_input: 5 } })).toBe(0)
  expect(runExitCode({ status: 'completed', rows: { ...rows, failed: 1 } })).toBe(3)
  expect(runExitCode({ status: 'completed', rows: { ...rows, waiting: 1 } })).toBe(3)
  expect(runExitCode({ status: 'budget_reached', rows: { ...rows, failed: 1 } })).toBe(4)
  expect(runExitCode({ status: 'interrupted', rows })).toBe(130)
  expect(runExitCode({ status: 'failed', rows })).toBe(1)
  expect(runExitCode({ status: 'unauthorized', rows })).toBe(2)
})

describe('call estimates match the calls of a run', () => {
  const toRequest = (email: number) => ({ email, linkedin_url: 2, name_company: 1, domain: 4 })
  const auto = { route: 'auto', bulkPossible: true, size: 100 } as const
  test('jobs of 100, the last one from the minimum on, the rest by single calls', () => {
    expect(estimateCalls(toRequest(250), auto, 50)).toEqual({ person: 3, company: 4, bulk: 3, total: 10 })
    expect(estimateCalls(toRequest(249), auto, 50)).toEqual({
      person: 3 + 49,
      company: 4,
      bulk: 2,
      total: 58,
    })
    expect(estimateCalls(toRequest(49), auto, 50)).toEqual({ person: 52, company: 4, bulk: 0, total: 56 })
  })
  test('jobs of another size, and none below a minimum above it', () => {
    const ten = { ...auto, size: 10 }
    expect(estimateCalls(toRequest(42), ten, 2)).toMatchObject({ person: 3, bulk: 5 })
    expect(estimateCalls(toRequest(41), ten, 2)).toMatchObject({ person: 4, bulk: 4 })
    expect(estimateCalls(toRequest(42), ten, 50)).toMatchObject({ person: 45, bulk: 0 })
  })
  test('all single, or all in bulk, on request', () => {
    expect(estimateCalls(toRequest(250), { ...auto, route: 'sync' }, 50).person).toBe(253)
    expect(estimateCalls(toRequest(1), { ...auto, route: 'bulk' }, 50)).toMatchObject({ person: 3, bulk: 1 })
  })
})

describe('batcher', () => {
  test('batches items that arrive during a write, and loses nothing', async () => {
    const batches: number[][] = []
    let finish = (): void => {}
    const add = createBatcher<number>(async (items) => {
      batches.push(items)
      await new Promise<void>((resolve) => (finish = resolve))
    })
    const all = [add(1), add(2)]
    await expect.poll(() => batches.length).toBe(1)
    all.push(add(3), add(4), add(5))
    finish()
    await expect.poll(() => batches.length).toBe(2)
    finish()
    await Promise.all(all)
    expect(batches).toEqual([
      [1, 2],
      [3, 4, 5],
    ])
  })
  test('writes each item of a failed batch alone, and rejects only the faulty one', async () => {
    const batches: number[][] = []
    const add = createBatcher<number>(async (items) => {
      batches.push(items)
      if (items.includes(2)) throw new Error('not written')
    })
    await expect(Promise.allSettled([add(1), add(2), add(3)])).resolves.toMatchObject([
      { status: 'fulfilled' },
      { status: 'rejected' },
      { status: 'fulfilled' },
    ])
    expect(batches).toEqual([[1, 2, 3], [1], [2], [3]])
    await expect(add(4)).resolves.toBeUndefined()
  })
  test('gathers items, until enough wait, their time is over, or one must not wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const batches: number[][] = []
    let gatherMs = 50
    const add = createBatcher<number>(async (items) => void batches.push(items), {
      gatherMs: () => gatherMs,
      fullAt: () => 3,
    })
    const first = [add(1), add(2)]
    await vi.advanceTimersByTimeAsync(49)
    expect(batches).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    await Promise.all(first)
    const second = [add(3), add(4), add(5)]
    await vi.advanceTimersByTimeAsync(0)
    await Promise.all(second)
    const third = [add(6)]
    gatherMs = 0
    third.push(add(7))
    await vi.advanceTimersByTimeAsync(0)
    await Promise.all(third)
    expect(batches).toEqual([
      [1, 2],
      [3, 4, 5],
      [6, 7],
    ])
  })
  test('limits a batch by bytes too, and writes a larger item alone', async () => {
    const batches: number[][] = []
    const add = createBatcher<number>(async (items) => void batches.push(items), {
      sizeOf: (item) => item,
      maxBytes: 10,
    })
    await Promise.all([4, 4, 4, 25, 1, 9, 1].map((item) => add(item)))
    expect(batches).toEqual([[4, 4], [4], [25], [1, 9], [1]])
  })
})

test('an open circuit allows no call, and one call when a probe is due', () => {
  const client = { callsAllowedByKeys: Number.POSITIVE_INFINITY }
  const at = (state: BreakerState, nextProbeAt: number | null, now: number) =>
    allowedByBreaker({ breaker: { state, nextProbeAt }, client }, now)
  expect(at('closed', null, 0)).toBe(Number.POSITIVE_INFINITY)
  expect(at('open', 100, 99)).toBe(0)
  expect(at('open', 100, 100)).toBe(1)
  expect(at('half_open', 100, 100)).toBe(0)
})

test('no lookup is leased for rejected keys, and one for keys that are retried', () => {
  const breaker = { state: 'closed', nextProbeAt: null } as const
  expect(allowedByBreaker({ breaker, client: { callsAllowedByKeys: 0 } }, 0)).toBe(0)
  expect(allowedByBreaker({ breaker, client: { callsAllowedByKeys: 1 } }, 0)).toBe(1)
})

test('reading all waiting rows takes a twentieth of the time, and a second is the least between two reads', () => {
  expect(nextReadAt(10_000, 10_001)).toBe(11_000)
  expect(nextReadAt(10_000, 10_050)).toBe(11_000)
  expect(nextReadAt(10_000, 15_000)).toBe(110_000)
})
