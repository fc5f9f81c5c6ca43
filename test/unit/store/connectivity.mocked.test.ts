import { beforeEach, describe, expect, test, vi } from 'vitest'
import { openDatabase } from '../../../src/store/open.ts'
import {
  expiresAfterAbort,
  isTransient,
  releaseWithin,
  retryWhileStarting,
  retryWhileUnavailable,
  TakeoverGrace,
  TransactionTimeoutError,
  isConflict,
} from '../../../src/store/transaction.ts'

/** Time passes only while the code under test sleeps. */
const clock = vi.hoisted(() => ({ ms: 0, refusedAt: Number.NEGATIVE_INFINITY }))
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => {
    clock.ms += ms
    return Promise.resolve()
  },
}))
vi.mock(import('../../../src/store/open.ts'), async (original) => ({
  ...(await original()),
  refusedAt: () => clock.refusedAt,
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
  test.each(['08006', '57P01', '53300', '25006', '25P03', '25P04', 'ECONNREFUSED'])(
    '%s is transient',
    (code) => {
      const error = Object.assign(new Error('made on purpose'), { code })
      expect([isConflict(error), isTransient(error)]).toEqual([false, true])
    },
  )
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

  test('ends when Postgres gives a transaction less time than it takes, and says which setting', async () => {
    const act = failingFor(HOUR, '25P04')
    const ended = await retryWhileUnavailable(act, {}).catch((error: unknown) => error)
    expect(ended).toBeInstanceOf(TransactionTimeoutError)
    expect(ended).toMatchObject({
      message: expect.stringContaining('transaction_timeout = 0'),
      cause: { code: '25P04' },
    })
    expect(isTransient(ended)).toBe(false)
    expect(clock.ms).toBeGreaterThan(20_000)
    expect(clock.ms).toBeLessThan(60_000)
    const conflicts = Number.POSITIVE_INFINITY
    expect(await retryWhileUnavailable(failingFor(2 * HOUR, '25P04'), { conflicts })).toBe('done')
  })

  test('an outage between two of its transactions that took too long ends the count', async () => {
    let calls = 0
    const act = vi.fn<() => Promise<string>>(() => {
      const code = ++calls % 9 === 0 ? 'ECONNREFUSED' : '25P04'
      return calls > 50
        ? Promise.resolve('done')
        : Promise.reject(Object.assign(new Error('made on purpose'), { code }))
    })
    expect(await retryWhileUnavailable(act, {})).toBe('done')
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

  test.each([
    ['57P03', 'a server that is starting', 60_000],
    ['57P01', 'one that is stopping', 60_000],
    ['ECONNRESET', 'one that crashes', 60_000],
    ['ECONNREFUSED', 'nothing listens: a restart, or a wrong port', 10_000],
    ['ENOTFOUND', 'a wrong host', 0],
    ['28P01', 'a wrong password', 0],
    ['3D000', 'a wrong database', 0],
  ])('a first connection waits for %s (%s) for %i ms', async (code, _, atMostMs) => {
    const onWait = vi.fn<(error: Error, ms: number) => void>()
    const { signal } = new AbortController()
    await expect(retryWhileStarting(failingFor(HOUR, code), signal, onWait)).rejects.toThrow(
      'made on purpose',
    )
    expect(clock.ms).toBeGreaterThanOrEqual(atMostMs)
    expect(clock.ms).toBeLessThan(atMostMs + 6_000)
    expect(onWait.mock.calls.map(([, ms]) => ms)).toEqual(atMostMs === 0 ? [] : [atMostMs])
    clock.ms = 0
    const waits = retryWhileStarting(failingFor(atMostMs / 2, code), signal, onWait)
    expect(await waits).toBe('done')
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

describe('what dead processes have left is taken over', () => {
  const readOnly = Object.assign(new Error('made on purpose'), { code: '25006' })

  test('not while Postgres takes no writes, and not before living processes have stored what they hold', () => {
    const grace = new TakeoverGrace(openDatabase({ url: 'postgres://unused@127.0.0.1:1/none' }), 15_000)
    expect(grace.isRunning()).toBe(false)
    for (let tick = 0; tick < 40; tick++) {
      if (!grace.isRunning()) grace.noteFailure(readOnly)
      // Another step is refused as well.
      clock.refusedAt = clock.ms
      clock.ms += 3_000
      expect(grace.isRunning()).toBe(true)
    }
    for (let waited = 3_000; waited < 18_000; waited += 3_000) {
      clock.ms += 3_000
      expect(grace.isRunning()).toBe(true)
    }
    clock.ms += 3_000
    expect(grace.isRunning()).toBe(false)
  })

  test('also while Postgres refuses other statements only', () => {
    const grace = new TakeoverGrace(openDatabase({ url: 'postgres://unused@127.0.0.1:1/none' }), 15_000)
    let taken = 0
    for (; clock.ms < HOUR; clock.ms += 3_000) {
      clock.refusedAt = clock.ms
      if (grace.isRunning()) continue
      // Once, at the beginning, that of the takeover was, too.
      if (taken++ === 0) grace.noteFailure(readOnly)
    }
    expect(taken).toBeGreaterThan(900)
  })
})
