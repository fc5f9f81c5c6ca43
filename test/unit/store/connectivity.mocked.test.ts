import { beforeEach, describe, expect, test, vi } from 'vitest'
import {
  expiresAfterAbort,
  isTransient,
  releaseWithin,
  retryWhileUnavailable,
} from '../../../src/store/connectivity.ts'
import { isConflict } from '../../../src/store/transaction.ts'

/** Time passes only while the code under test sleeps. */
const clock = vi.hoisted(() => ({ ms: 0 }))
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => {
    clock.ms += ms
    return Promise.resolve()
  },
}))
vi.spyOn(performance, 'now').mockImplementation(() => clock.ms)
beforeEach(() => {
  clock.ms = 0
})

/** Fails for a while, then succeeds. */
const failingFor = (ms: number, code: string) =>
  vi.fn<() => Promise<string>>(() =>
    clock.ms < ms
      ? Promise.reject(Object.assign(new Error('made on purpose'), { code }))
      : Promise.resolve('done'),
  )
const HOUR = 3_600_000

describe('an error of Postgres', () => {
  test.each(['40P01', '40001', '55P03'])(
    '%s is a conflict with another transaction, and no outage',
    (code) => {
      const error = Object.assign(new Error('made on purpose'), { code })
      expect([isConflict(error), isTransient(error)]).toEqual([true, false])
    },
  )
  test.each(['08006', '57P01', '53300', '25006', 'ECONNREFUSED'])('%s is transient', (code) => {
    const error = Object.assign(new Error('made on purpose'), { code })
    expect([isConflict(error), isTransient(error)]).toEqual([false, true])
  })
})

describe('retryWhileUnavailable', () => {
  test('retries conflicts a limited number of times, and does not report them as outages', async () => {
    const act = failingFor(HOUR, '40001')
    const onWait = vi.fn<() => void>()
    await expect(retryWhileUnavailable(act, { onWait })).rejects.toThrow('made on purpose')
    expect(act).toHaveBeenCalledTimes(21)
    expect(onWait).not.toHaveBeenCalled()
  })

  test('retries without limit to store paid results, and while Postgres is unavailable', async () => {
    const conflicts = Number.POSITIVE_INFINITY
    expect(await retryWhileUnavailable(failingFor(HOUR, '55P03'), { conflicts })).toBe('done')
    clock.ms = 0
    expect(await retryWhileUnavailable(failingFor(HOUR, 'ECONNREFUSED'), {})).toBe('done')
  })

  test('gives up when the lease has expired by itself, so that a shutdown ends while Postgres is unavailable', async () => {
    const act = failingFor(HOUR, 'ECONNREFUSED')
    await releaseWithin(15_000, async () => void (await act()))
    expect(act.mock.calls.length).toBeGreaterThan(1)
    expect(clock.ms).toBeLessThan(30_000)
    await expect(releaseWithin(15_000, async () => void (await failingFor(HOUR, '42501')()))).rejects.toThrow(
      'made on purpose',
    )
  })

  test('gives up some time after a shutdown started, and not before', async () => {
    const stop = new AbortController()
    const act = failingFor(HOUR, 'ECONNREFUSED')
    const giveUp = expiresAfterAbort(stop.signal, 10_000)
    const onWait = vi.fn<() => void>(() => {
      if (clock.ms > HOUR / 2) stop.abort()
    })
    await expect(retryWhileUnavailable(act, { giveUp, onWait })).rejects.toThrow('made on purpose')
    expect(clock.ms).toBeGreaterThan(HOUR / 2)
    expect(clock.ms).toBeLessThan(HOUR / 2 + 60_000)
  })
})
