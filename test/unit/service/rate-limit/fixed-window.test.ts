import { describe, expect, test } from 'vitest'
import { CallLedger, type Call } from '../../../../src/service/rate-limit/call-ledger.ts'
import { FixedWindow } from '../../../../src/service/rate-limit/fixed-window.ts'

const LIMIT = 10
const instant = (at: number, precision = 1) => ({ kind: 'instant', at, precision }) as const

/** Fixed windows, and the calls that are counted in them. */
class Play {
  readonly ledger = new CallLedger()
  readonly window: FixedWindow

  constructor(isOdd = false, isShared = false) {
    this.window = new FixedWindow(this.ledger, isOdd, isShared)
  }

  send(at: number): Call {
    const { id, certain } = this.window
    const call = this.ledger.send({ sentAt: at, window: id, certainBefore: certain }, 0)
    this.window.onSent(call)
    return call
  }

  answer(call: Call, at: number, used: number | null, isCounted = true): this {
    const result = { call, receivedAt: at, used, isCounted, isRefused: false }
    this.ledger.complete(result)
    this.window.onAnswer(result, LIMIT, 0)
    return this
  }

  /** One call after the other, answered after 20 ms. */
  calls(sentAt: readonly number[], firstUsed = 1): this {
    for (const [index, at] of sentAt.entries()) this.answer(this.send(at), at + 20, firstUsed + index)
    return this
  }

  /** Calls that hold a place at a moment. */
  heldAt(now: number): number {
    return this.ledger.completedAfter(this.window.cutoff(now))
  }
}

describe('which window a call is counted in', () => {
  test('the next, if it counts no more than were certainly counted before it', () => {
    const play = new Play().calls([0, 100, 200]).calls([1010])
    expect(play.window).toMatchObject({ id: 1, firstSentAt: 1010, by: 1030 })
    expect(play.heldAt(1030)).toBe(1)
  })

  test('while counts do not tell, it holds a place in the next one too', () => {
    const play = new Play()
    const [first, second] = [play.send(0), play.send(1)]
    play.answer(first, 20, 1).answer(second, 21, 2).calls([1010])
    expect(play.heldAt(1030)).toBeGreaterThanOrEqual(1)
    const late = play.send(2000)
    play.calls([2010]).answer(late, 2100, null)
    expect(play.window.id).toBe(2)
    expect(play.heldAt(2110)).toBe(2)
  })

  test('one that was completed within the shortest length after the start is in no later one', () => {
    const play = new Play().calls([0, 900]).calls([1010])
    expect(play.window.min).toBe(880)
    const late = play.send(1050)
    play.calls([1060], 2).answer(late, 1100, null).calls([2100])
    expect(play.heldAt(2130)).toBe(1)
  })

  test('all are in this one if one of them counts as many as it can have', () => {
    const play = new Play()
    const [first, second] = [play.send(0), play.send(1)]
    play.answer(first, 20, 1).answer(second, 21, 2).calls([1010])
    expect(play.heldAt(1030)).toBe(1)
  })

  test('the next has begun if a count is stated, whether or not that call is counted', () => {
    const play = new Play().calls([0, 100])
    play.answer(play.send(1010), 1030, 1, false)
    expect(play.window).toMatchObject({ id: 1, by: 1030 })
  })

  test('none opens by a call that may not be counted', () => {
    const play = new Play().calls([0, 100])
    play.answer(play.send(1100), 1120, null, false)
    expect(play.window.id).toBe(0)
  })

  test('it started after the calls that it does not count', () => {
    const play = new Play().calls([0, 100])
    const [first, second] = [play.send(1000), play.send(1005)]
    play.answer(first, 1040, null).answer(second, 1050, null).calls([1200])
    expect(play.window.after).toBe(1005)
    expect(play.heldAt(1230)).toBe(1)
  })

  test('it is over a length after its first answer at the latest', () => {
    const play = new Play().calls([0, 900]).calls([1030, 1900]).calls([2060])
    expect(play.window.max).toBe(1000)
    expect(play.window.endsAt).toBeCloseTo(2080 + 1002.1)
    expect(play.heldAt(3082)).toBe(1)
    expect(play.heldAt(3083)).toBe(0)
  })
})

describe('the length', () => {
  test('is no longer than from a window’s first call to the next one’s first answer', () => {
    const play = new Play(true).calls([0, 700]).calls([1010, 1700]).calls([2000])
    expect(play.window.maxByRequest).toBe(1010)
    expect(play.window.min).toBe(680)
  })

  test('is taken for a round one, and for the observed one once a round one was too short', () => {
    const [round, odd] = [new Play(), new Play(true)].map((play) => play.calls([0, 500]).calls([1037]))
    expect([round?.window.maxByRequest, odd?.window.maxByRequest]).toEqual([1000, 1057])
  })

  test('of windows that another client may have started is a multiple of half a second', () => {
    const play = new Play(false, true).calls([0, 100]).calls([1300, 1400]).calls([2700])
    expect(play.window.maxByRequest % 500).toBe(0)
  })

  test('is bounded by no window before an idle time', () => {
    const play = new Play().calls([0, 100])
    play.window.onIdle(60_000)
    play.calls([60_010])
    expect([play.window.min, play.window.observedMax]).toEqual([80, Number.POSITIVE_INFINITY])
  })
})

describe('the instants in Reset', () => {
  const maxAfter = (at: readonly number[], precision = 1, idleAfter = -1): number => {
    const { window } = new Play()
    for (const [index, end] of at.entries()) {
      window.onReset(instant(end, precision), 0, 0)
      if (index === idleAfter) window.onIdle(end)
    }
    return window.max
  }

  test('are at least a length apart', () => {
    expect(maxAfter([10_000, 14_000, 20_000])).toBe(4000)
  })

  test('that differ by less than rounding are the same', () => {
    expect(maxAfter([10_000, 11_000], 1000)).toBe(Number.POSITIVE_INFINITY)
  })

  test('of two stretches of work bound nothing: any number of windows lies between', () => {
    expect(maxAfter([10_000, 90_000], 1, 0)).toBe(Number.POSITIVE_INFINITY)
  })
})
