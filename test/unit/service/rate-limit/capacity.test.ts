import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { Capacity, RemainingTracker, WindowRamp } from '../../../../src/service/rate-limit/capacity.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'
import type { WindowModels } from '../../../../src/service/rate-limit/window-models.ts'
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
  interface Known {
    readonly length?: number
    readonly isFixed?: boolean
    readonly isRolling?: boolean
    /** The open window: its latest start, and what is left of it. */
    readonly latestStart?: number | null
    readonly left?: number
  }

  /** Ten calls a second, by what is known of the window. */
  function create(known: Known = {}) {
    const { length = 1000, isFixed = false, isRolling = false, latestStart = null, left = 0 } = known
    const ledger = new CallLedger()
    const shared = new SharedKeyDetector()
    const window = { id: 1, latestStart, remaining: () => left, advance }
    function advance(): void {
      window.id++
      window.latestStart = null
    }
    const estimate = { length, isFixed, isRolling }
    const models = {
      estimate,
      window,
      remaining: (limit: number, now: number) =>
        Math.max(ledger.remainingWithin(limit, length, now), isFixed ? left : Number.NEGATIVE_INFINITY),
    } as unknown as WindowModels
    const capacity = new Capacity(ledger, models, shared)
    /** One call, answered after 20 ms with Remaining. */
    const call = (sentAt: number, remaining: number): void => {
      const sent = ledger.send(sentAt, { id: window.id, confirmed: 0, certain: 0 }, 0)
      ledger.complete(resultOf(sent, sentAt + 20))
      capacity.tracker.record(sent, remaining, sentAt + 20)
      capacity.ramp.onCompleted(sent, true)
    }
    return { ledger, shared, window, capacity, call }
  }

  test('is the estimate that allows more: Remaining, or the window models', () => {
    const remaining = (known: Known): number => {
      const { capacity, ledger, call } = create(known)
      call(0, 3)
      ledger.grant(2, 30)
      return capacity.remaining(10, 1500)
    }
    expect(remaining({ length: Number.POSITIVE_INFINITY })).toBe(1)
    expect(remaining({ isRolling: true, length: 400 })).toBe(1)
    expect(remaining({ isFixed: true, left: 1 })).toBe(1)
  })

  test('rises by time alone, without a header, if nothing is pending or the window is new', () => {
    const rolling = create({ isRolling: true })
    rolling.call(0, 0)
    expect(rolling.capacity.remaining(10, 1022)).toBe(9)
    expect(rolling.capacity.remaining(10, 1023)).toBe(10)
    const fixed = create({ isFixed: true, latestStart: 0, left: 10 })
    fixed.call(0, 0)
    expect(fixed.capacity.remaining(10, 900)).toBe(0)
    expect(fixed.capacity.remaining(10, 1003)).toBe(10)
    expect(fixed.capacity.spendable(10, 1003)).toBe(4)
    expect(fixed.window.id).toBe(2)
  })

  describe('beside another client', () => {
    const beside = (remaining: number, known: Known = { isRolling: true }) => {
      const created = create(known)
      created.call(0, remaining)
      created.shared.onExcessDecrease(3, 0, 10, 30)
      return created
    }

    test('is the latest header less an allowance for it', () => {
      const { shared, capacity } = beside(7)
      expect(capacity.remaining(10, 2030)).toBe(7 - shared.allowance(1000, 20, 2030))
    })

    test('needs no length: what is not known of the window holds nothing up', () => {
      const { capacity } = beside(7, { length: Number.POSITIVE_INFINITY })
      expect(capacity.remaining(10, 60)).toBeGreaterThan(1)
    })

    test('is one call at a time while the header leaves two', () => {
      const { ledger, capacity } = beside(2)
      expect(capacity.remaining(10, 30)).toBe(1)
      ledger.grant(1, 30)
      expect(capacity.remaining(10, 30)).toBeLessThanOrEqual(0)
      const unknown = { length: Number.POSITIVE_INFINITY }
      expect(beside(2, unknown).capacity.remaining(10, 30)).toBe(1)
      expect(beside(1, unknown).capacity.remaining(10, 30)).toBe(0)
    })

    test('is one call once by our count a window is new, but not soon after a 429', () => {
      const rolling = beside(0)
      expect(rolling.capacity.remaining(5, 30)).toBe(0)
      expect(rolling.capacity.remaining(6, 30)).toBe(1)
      rolling.shared.onRejected(1, 10, 30)
      expect(rolling.capacity.remaining(6, 40)).toBe(0)
      const fixed = beside(0, { isFixed: true, latestStart: 0, left: 10 })
      expect(fixed.capacity.remaining(10, 900)).toBe(0)
      expect(fixed.capacity.remaining(10, 1003)).toBe(1)
      const unknown = beside(0, { length: Number.POSITIVE_INFINITY })
      expect(unknown.capacity.remaining(10, 900)).toBe(0)
    })
  })

  test('is exhausted until the window ends, or the oldest call leaves it; the later if both are possible', () => {
    const until = (known: Known): number => {
      const { capacity, call } = create({ ...known, latestStart: 500 })
      call(0, 0)
      return capacity.exhaustedUntil(10, 600, null)
    }
    expect(until({ isFixed: true })).toBeCloseTo(1502.1)
    expect(until({ isRolling: true })).toBeCloseTo(1022.1)
    expect(until({})).toBeCloseTo(1502.1)
  })

  test('is exhausted until a fixed window ends, however late a call in it was answered', () => {
    const { capacity, call } = create({ isFixed: true, latestStart: 0 })
    call(500, 0)
    expect(capacity.exhaustedUntil(10, 600, null)).toBeCloseTo(1002.1)
  })

  test('is exhausted until Reset, or for a minute, if nothing is known of the window', () => {
    const { capacity } = create({ length: Number.POSITIVE_INFINITY })
    expect(capacity.exhaustedUntil(10, 1000, null)).toBe(61_000)
    expect(capacity.exhaustedUntil(10, 1000, 5000)).toBe(5000)
  })
})
