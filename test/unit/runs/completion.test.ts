import { describe, expect, test } from 'vitest'
import { decideCompletion, isOutageTooLong, nextReadAt } from '../../../src/runs/completion.ts'
import { runExitCode } from '../../../src/runs/report.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'

describe('a run', () => {
  const still = {
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
  expect(runExitCode({ status: 'misconfigured', rows })).toBe(2)
})

test('reading all waiting rows takes a twentieth of the time, and a second is the least between two reads', () => {
  expect(nextReadAt(10_000, 10_001)).toBe(11_000)
  expect(nextReadAt(10_000, 10_050)).toBe(11_000)
  expect(nextReadAt(10_000, 15_000)).toBe(110_000)
})
