import { describe, expect, test } from 'vitest'
import { CallLedger, type Call } from '../../../../src/service/rate-limit/call-ledger.ts'
import { FixedWindow, type WindowEvidence } from '../../../../src/service/rate-limit/fixed-window.ts'

const LIMIT = 10

/** A window, and the calls that are charged to it. */
class Play {
  readonly ledger = new CallLedger()
  readonly window = new FixedWindow(this.ledger)

  send(at: number): Call {
    const call = this.ledger.send(at, this.window, 0)
    this.window.onSent(call)
    return call
  }

  answer(
    call: Call,
    at: number,
    used: number | null,
    more: { minLength?: number; resetAt?: number; isCounted?: boolean; otherCalls?: number } = {},
  ): WindowEvidence {
    const { minLength = 0, resetAt = null, isCounted = true, otherCalls = 0 } = more
    const result = { call, receivedAt: at, used, isCounted, resetAt }
    this.ledger.complete(result)
    return this.window.onCompleted(result, minLength, otherCalls)
  }

  /** One call after the other, answered after 20 ms. */
  calls(sentAt: readonly number[], firstUsed = 1): WindowEvidence[] {
    return sentAt.map((at, index) => this.answer(this.send(at), at + 20, firstUsed + index))
  }
}

describe('which window a call is counted in', () => {
  test('both are charged while the count does not tell', () => {
    const play = new Play()
    const [first, second, third] = [play.send(0), play.send(1), play.send(2)]
    play.answer(first, 20, 1)
    expect(play.answer(second, 21, 2)).toBe('ambiguous')
    expect(play.answer(third, 22, null)).toBe('ambiguous')
    play.window.advance()
    expect(play.window).toMatchObject({
      id: 1,
      charged: 2,
      startedBy: null,
      latestStart: 22,
      latestOwnStart: null,
    })
  })

  test('what was completed within the shortest length is in the window', () => {
    const play = new Play()
    play.calls([0])
    play.window.startedAfter = 0
    const [second, third] = [play.send(100), play.send(101)]
    play.answer(second, 140, null)
    play.answer(third, 150, null, { minLength: 500 })
    play.window.advance()
    expect(play.window).toMatchObject({ charged: 0, startedAfter: 500 })
  })

  test('a call that counts more than the next window can have by now is confirmed later', () => {
    const play = new Play()
    play.calls([0, 50])
    const flight = [100, 101, 102, 103].map((at) => play.send(at))
    for (const [index, used] of [5, 4, 6, 3].entries()) play.answer(flight[index] as Call, 140 + index, used)
    play.window.advance()
    expect(play.window.charged).toBeLessThan(2)
  })

  test('the next, if it counts fewer than were certainly counted before it, in whatever window', () => {
    const play = new Play()
    play.calls([0])
    for (const at of [100, 200, 300]) play.answer(play.send(at), at + 20, null)
    expect(play.window).toMatchObject({ confirmed: 1, certain: 4 })
    expect(play.calls([1100], 3)).toEqual(['next'])
  })

  test('what was completed before a call was sent that is seen to be in the window later is in it too', () => {
    const play = new Play()
    play.calls([0, 50])
    const [first, second] = [play.send(100), play.send(101)]
    play.send(102)
    play.send(103)
    play.answer(second, 150, null)
    expect(play.answer(play.send(200), 240, 5)).toBe('ambiguous')
    expect(play.answer(first, 260, 6)).toBe('same')
    expect(play.window.confirmed).toBe(5)
    play.window.advance()
    expect(play.window.charged).toBe(0)
  })

  test('a 5xx that may not be counted opens no window', () => {
    const play = new Play()
    play.calls([0, 100])
    play.answer(play.send(1100), 1120, null, { isCounted: false })
    expect(play.window).toMatchObject({ id: 0, charged: 3, confirmed: 2 })
  })

  test('a refused call exhausts it', () => {
    const play = new Play()
    play.window.exhaust(LIMIT)
    expect(play.window.remaining(LIMIT)).toBe(0)
  })
})

describe('calls around the start of a window', () => {
  test('one that was in flight when it opened is charged to it', () => {
    const play = new Play()
    play.calls([0, 100, 200])
    const late = play.send(1000)
    play.calls([1010])
    expect(play.window.id).toBe(1)
    expect(play.window.firstSentAt).toBe(1000)
    play.answer(late, 1100, null)
    expect(play.window.charged).toBe(2)
  })

  test('one that was in flight when it opened is not in the next one, if it was completed too soon for that', () => {
    const play = new Play()
    play.calls([0, 100, 200])
    const late = play.send(1000)
    play.calls([1010])
    play.answer(late, 1100, null, { minLength: 1000 })
    play.window.advance()
    expect(play.window.charged).toBe(0)
  })

  test('one that counts more than this window can have belongs to the one before', () => {
    const play = new Play()
    play.calls([0, 100, 200])
    const late = play.send(1000)
    play.calls([1010])
    expect(play.answer(late, 1100, 4)).toBe('ambiguous')
    expect(play.window.charged).toBe(1)
  })

  test('the window started before its first answer if it counts more than its own calls', () => {
    const play = new Play()
    play.calls([0, 100, 200])
    const [first, second] = [play.send(1000), play.send(1005)]
    play.window.advance()
    play.answer(first, 1040, null)
    play.answer(second, 1050, null)
    expect(play.window.startedBy).toBe(null)
    play.answer(play.send(1200), 1220, 3)
    expect(play.window.startedBy).toBe(1040)
  })

  test('it started after the calls that it does not count', () => {
    const play = new Play()
    play.calls([0, 100])
    const [first, second] = [play.send(1000), play.send(1005)]
    play.window.advance()
    play.answer(first, 1040, null)
    play.answer(second, 1050, null)
    play.answer(play.send(1200), 1220, 1)
    expect(play.window.startedAfter).toBe(1005)
  })

  test('another client may have been the first in it', () => {
    const play = new Play()
    play.calls([0, 100, 200, 300, 400, 500, 600, 700])
    expect(play.answer(play.send(1100), 1120, 3, { otherCalls: 1 })).toBe('next')
    expect(play.window.confirmed).toBe(1)
  })

  test('nothing that was decided holds once another client is detected', () => {
    const play = new Play()
    play.calls([0, 100, 200])
    play.window.invalidate()
    expect(play.window).toMatchObject({
      startedAfter: Number.NEGATIVE_INFINITY,
      confirmedUntil: Number.NEGATIVE_INFINITY,
    })
  })
})

describe('a window known by its Reset', () => {
  /** Two calls in flight together, the later after `until`: their counts do not tell the window. */
  const play = (until: number, resetAt = 9000): WindowEvidence => {
    const one = new Play()
    one.answer(one.send(0), 20, 1, { resetAt: 9000 })
    one.answer(one.send(10), 30, null, { isCounted: false })
    const [first, second] = [one.send(until), one.send(until)]
    one.answer(first, until + 20, null, { isCounted: false })
    return one.answer(second, until + 21, 2, { resetAt })
  }

  test('is the same while the Reset is, once it was seen for longer than rounding', () => {
    expect(play(1400)).toBe('ambiguous')
    expect(play(1600)).toBe('same')
  })

  test('may be another once the Reset is another', () => {
    expect(play(1600, 19_000)).toBe('ambiguous')
  })

  test('is not known by it once the count restarted under the same Reset', () => {
    const one = new Play()
    one.answer(one.send(0), 20, 1, { resetAt: 9000 })
    one.answer(one.send(100), 120, 2, { resetAt: 9000 })
    expect(one.answer(one.send(2000), 2020, 1, { resetAt: 9000 })).toBe('next')
    one.answer(one.send(2100), 2120, null, { isCounted: false })
    expect(one.answer(one.send(4000), 4020, 2, { resetAt: 9000 })).toBe('ambiguous')
  })
})
