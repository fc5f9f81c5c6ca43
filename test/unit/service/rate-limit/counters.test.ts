import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { Counters } from '../../../../src/service/rate-limit/counters.ts'
import { SECOND_WINDOWS } from './ledger-script.ts'

const LIMIT = 10

class Play {
  readonly ledger = new CallLedger()
  readonly counters = new Counters(this.ledger)

  /** One call after the other, each with how many are used; answered after 20 ms. */
  calls(calls: readonly (readonly [number, number])[]): this {
    for (const [sentAt, used] of calls) {
      const { id, certain } = this.counters.fixed
      const call = this.ledger.send({ sentAt, window: id, certainBefore: certain }, 0)
      this.counters.fixed.onSent(call)
      const result = { call, receivedAt: sentAt + 20, used, isCounted: true, isRefused: false }
      this.ledger.complete(result)
      this.counters.onCompleted(result, LIMIT, 0)
    }
    return this
  }
}

describe('the ways to count', () => {
  test('are all possible at first, and no call loses its place', () => {
    const { counters } = new Play().calls([[0, 1]])
    expect(counters).toMatchObject({ isFixed: false, isRolling: false, isBucket: false })
    expect(counters.cutoff(1e9)).toBe(Number.NEGATIVE_INFINITY)
  })

  test('that answers contradict do not count', () => {
    const { counters } = new Play().calls(SECOND_WINDOWS)
    expect(counters).toMatchObject({ isFixed: true, isRolling: false })
    expect(counters.length).toBe(counters.fixed.max)
    expect(counters.windowEnd).toBe(counters.fixed.endsAt)
  })

  test('begin anew if none is left', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    const { id } = play.counters.fixed
    play.counters.fixed.min = Number.POSITIVE_INFINITY
    play.calls([[2200, 2]])
    expect(play.counters.all.map(({ isPossible }) => isPossible)).toEqual([true, true, true])
    expect(play.counters.fixed.id).toBe(id + 1)
  })

  test('a sliding window is bounded by the calls that it still counts, and by those that it does not', () => {
    const { counters } = new Play().calls([
      [0, 1],
      [400, 2],
      [800, 3],
      [1100, 3],
      [1450, 3],
    ])
    const { isPossible, min, max } = counters.sliding
    expect([isPossible, min, max]).toEqual([true, 780, 1000])
  })

  test('a bucket is bounded by what comes back while it is certainly not full', () => {
    const { counters } = new Play().calls([
      [0, 8],
      [1000, 4],
      [2000, 1],
    ])
    expect(counters.bucket.max).toBeLessThan(3500)
    expect(counters.bucket.min).toBeGreaterThan(1000)
  })
})

describe('an idle time', () => {
  const demand = (idleMs: number, furthestReset = 0): boolean => {
    const { counters } = new Play()
    counters.onDemand(false, 3000, furthestReset)
    return counters.onDemand(true, 3000 + idleMs, furthestReset)
  }

  test('is half a second or a fiftieth of the furthest Reset, and no more than half a minute', () => {
    expect(demand(500)).toBe(false)
    expect(demand(501)).toBe(true)
    expect(demand(1000, 60_000)).toBe(false)
    expect(demand(1300, 60_000)).toBe(true)
    expect(demand(30_001, 10_000_000)).toBe(true)
  })
})
