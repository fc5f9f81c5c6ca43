import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { Capacity, RemainingTracker, WindowRamp } from '../../../../src/service/rate-limit/capacity.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'
import { WindowModels } from '../../../../src/service/rate-limit/window-models.ts'
import { resultOf, send } from './ledger-script.ts'

describe('what Remaining leaves', () => {
  const create = () => {
    const ledger = new CallLedger()
    return { ledger, tracker: new RemainingTracker(ledger) }
  }

  test('every call that was in flight with it may have come after it', () => {
    const { ledger, tracker } = create()
    const calls = [0, 1, 2].map((at) => send(ledger, at))
    ledger.complete(resultOf(calls[0]!, 20))
    tracker.record(calls[0]!, 7, 20)
    expect(tracker.remaining).toBe(5)
    ledger.grant(1, 21)
    expect(tracker.remaining).toBe(4)
  })

  test('is the same in whatever order answers arrive', () => {
    const remainders = [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ].map((order) => {
      const { ledger, tracker } = create()
      const calls = [0, 1, 2].map((at) => send(ledger, at))
      for (const index of order) {
        ledger.complete(resultOf(calls[index]!, 20))
        tracker.record(calls[index]!, 9 - index, 20)
      }
      return tracker.remaining
    })
    expect(remainders).toEqual([7, 7, 7])
  })

  test('is no more than the latest header says', () => {
    const { ledger, tracker } = create()
    for (const remaining of [9, 3]) {
      const call = send(ledger, 0)
      ledger.complete(resultOf(call, 20))
      tracker.record(call, remaining, 20)
    }
    expect(tracker.remaining).toBe(3)
    expect(tracker.latestRemaining).toBe(3)
    expect(tracker.latestCertain).toBe(3)
  })

  test('fell by another client’s calls if by more than ours, since the last header', () => {
    const { ledger, tracker } = create()
    const first = send(ledger, 0)
    ledger.complete(resultOf(first, 20))
    tracker.record(first, 9, 20)
    const [before, after] = [send(ledger, 10), send(ledger, 30)]
    expect(tracker.excess(before, 5)).toBe(0)
    expect(tracker.excess(after, 7)).toBe(0)
    expect(tracker.excess(after, 5)).toBe(2)
  })

  test('does not hold after a cut of the limit, nor after a 429', () => {
    for (const forget of ['onDecrease', 'reset'] as const) {
      const { ledger, tracker } = create()
      const call = send(ledger, 0)
      ledger.complete(resultOf(call, 20))
      tracker.record(call, 9, 20)
      tracker[forget]()
      expect(tracker.remaining).toBeLessThanOrEqual(0)
      expect(tracker.allowed).toBe(0)
    }
  })

  test('for certain is what the least of the answers in flight together leaves, until a later call is answered', () => {
    const { ledger, tracker } = create()
    const [first, second] = [send(ledger, 0), send(ledger, 1)]
    for (const [call, remaining, at] of [
      [first, 5, 20],
      [second, 8, 21],
    ] as const) {
      ledger.complete(resultOf(call, at))
      tracker.record(call, remaining, at)
    }
    expect(tracker.latestCertain).toBe(4)
    const third = send(ledger, 30)
    ledger.complete(resultOf(third, 50))
    tracker.record(third, 7, 50)
    expect(tracker.latestCertain).toBe(7)
  })

  test('is not lowered by the answer of an earlier call that arrives late', () => {
    const { ledger, tracker } = create()
    const [first, second] = [send(ledger, 0), send(ledger, 1)]
    ledger.complete(resultOf(second, 20))
    tracker.record(second, 8, 20)
    ledger.complete(resultOf(first, 30))
    tracker.record(first, 2, 30)
    expect(tracker.latestRemaining).toBe(8)
  })

  test('is nothing by any estimate after a 429, until calls are allowed without a header', () => {
    const { ledger, tracker } = create()
    const call = send(ledger, 0)
    ledger.complete(resultOf(call, 20))
    tracker.record(call, 9, 20)
    send(ledger, 30)
    tracker.reset()
    expect(tracker).toMatchObject({ remaining: 0, latestRemaining: 0, latestCertain: 0 })
    tracker.allow(2)
    expect(tracker).toMatchObject({ remaining: 2, latestCertain: 2 })
  })

  test('may be exceeded by calls that are known to be allowed without it', () => {
    const { tracker } = create()
    tracker.allow(2)
    expect(tracker.remaining).toBe(2)
  })
})

describe('the first calls of a window', () => {
  const create = () => {
    const ledger = new CallLedger()
    return { ledger, ramp: new WindowRamp(ledger) }
  }
  const sendIn = (ledger: CallLedger, window: number) =>
    ledger.send(0, { id: window, confirmed: 0, certain: 0 }, 0)

  test.each([
    [6, 4],
    [30, 10],
    [1000, 32],
  ])('of a limit of %i are %i', (limit, count) => {
    const { ramp } = create()
    ramp.start(1, limit)
    expect(ramp.remaining).toBe(count)
  })

  test('are all until a header of that window arrives', () => {
    const { ledger, ramp } = create()
    const old = sendIn(ledger, 0)
    ramp.start(1, 30)
    const [first, second] = [sendIn(ledger, 1), sendIn(ledger, 1)]
    expect(ramp.remaining).toBe(7)
    ramp.onCompleted(old, true)
    expect(ramp).toMatchObject({ remaining: 8, isReleased: false })
    ramp.onCompleted(first, false)
    expect(ramp.remaining).toBe(10)
    ramp.onCompleted(second, true)
    expect(ramp).toMatchObject({ remaining: Number.POSITIVE_INFINITY, isReleased: true })
  })

  test('are at least four more than those in flight', () => {
    const { ledger, ramp } = create()
    for (let count = 0; count < 20; count++) sendIn(ledger, 0)
    ramp.start(1, 30)
    expect(ramp.remaining).toBe(4)
  })
})

describe('the capacity', () => {
  const create = () => {
    const ledger = new CallLedger()
    const shared = new SharedKeyDetector()
    const models = new WindowModels(ledger, shared)
    return { ledger, shared, capacity: new Capacity(ledger, models, shared) }
  }

  test('beside another client is the latest header less an allowance for it', () => {
    const ledger = new CallLedger()
    const shared = new SharedKeyDetector()
    const estimate = { length: 1000, isFixed: false, isRolling: true }
    const models = { estimate, paddedLength: 1002, window: { latestStart: null } } as unknown as WindowModels
    const capacity = new Capacity(ledger, models, shared)
    const call = send(ledger, 0)
    ledger.complete(resultOf(call, 20))
    capacity.tracker.record(call, 7, 20)
    expect(capacity.remaining(10, 30)).toBe(9)
    shared.onExcessDecrease(3, 0, 10, 30)
    expect(capacity.remaining(10, 30)).toBe(7 - shared.allowance(1000, 30))
  })

  test('beside another client is one call at a time if the header leaves two, and none after that', () => {
    const { ledger, shared, capacity } = create()
    const call = send(ledger, 0)
    ledger.complete(resultOf(call, 20))
    capacity.tracker.record(call, 2, 20)
    shared.onExcessDecrease(3, 0, 10, 30)
    expect(capacity.remaining(10, 30)).toBe(1)
    ledger.grant(1, 30)
    expect(capacity.remaining(10, 30)).toBeLessThan(1)
  })

  test('is exhausted for a minute at most if nothing is known of the window', () => {
    const { capacity } = create()
    expect(capacity.exhaustedUntil(10, 1000, null)).toBe(61_000)
    expect(capacity.exhaustedUntil(10, 1000, 5000)).toBe(5000)
  })
})
