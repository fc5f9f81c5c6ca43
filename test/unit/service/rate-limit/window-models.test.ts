import { describe, expect, test } from 'vitest'
import { CallLedger, type Call } from '../../../../src/service/rate-limit/call-ledger.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'
import { WindowModels } from '../../../../src/service/rate-limit/window-models.ts'
import { SECOND_WINDOWS } from './ledger-script.ts'
import { describeModels } from '../../../support/simulated-service/describe-models.ts'

const LIMIT = 10

class Play {
  readonly ledger = new CallLedger()
  readonly shared = new SharedKeyDetector()
  readonly models = new WindowModels(this.ledger, this.shared)

  send(at: number): Call {
    const call = this.ledger.send(at, this.models.window, 0)
    this.models.window.onSent(call)
    return call
  }

  answer(call: Call, at: number, used: number | null, isCounted = true, limit: number | null = LIMIT): void {
    this.models.onCompleted({ call, receivedAt: at, used, isCounted, resetAt: null }, limit)
  }

  /** One call after the other, each with how many are used; answered after 20 ms. */
  calls(calls: readonly (readonly [number, number])[]): this {
    for (const [sentAt, used] of calls) this.answer(this.send(sentAt), sentAt + 20, used)
    return this
  }
}

const sliding = [
  [0, 1],
  [500, 2],
  [900, 3],
  [1030, 3],
  [1100, 4],
  [1540, 4],
  [1600, 5],
  [1950, 5],
  [2060, 5],
] as const

describe('how the service counts', () => {
  test('is by fixed windows once calls leave all at once', () => {
    const { estimate } = new Play().calls(SECOND_WINDOWS).models
    expect(estimate).toMatchObject({ isFixed: true, isRolling: false })
    expect(estimate.length).toBeGreaterThanOrEqual(1000)
    expect(estimate.length).toBeLessThanOrEqual(1100)
  })

  test('is by a sliding window or a bucket once calls leave one by one', () => {
    const { estimate } = new Play().calls(sliding).models
    expect(estimate.isFixed).toBe(false)
  })

  test('is not by fixed windows once a part of what was used comes back', () => {
    const used = [1, 2, 3, 4, 5, 6, 7, 8]
    const play = new Play().calls(used.map((count) => [count * 30, count]))
    expect(play.calls([[800, 6]]).models.all.fixed.isContradicted).toBe(true)
  })

  test('shows the shortest length by what is still counted in the window that is open', () => {
    expect(new Play().calls(SECOND_WINDOWS).models.all.fixed.min).toBe(1980 - 1050)
  })

  test('may be any while nothing contradicts one: the longest length counts', () => {
    const { estimate } = new Play().calls([
      [0, 1],
      [100, 2],
    ]).models
    expect(estimate).toMatchObject({ isFixed: false, isRolling: false, length: Number.POSITIVE_INFINITY })
  })

  test('leaves what the longest length allows, and of fixed windows what the open one does', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    expect(play.ledger.remainingWithin(LIMIT, play.models.estimate.length, 2100)).toBeLessThan(9)
    expect(play.models.remaining(LIMIT, 2100)).toBe(9)
    expect(new Play().models.remaining(LIMIT, 0)).toBe(Number.NEGATIVE_INFINITY)
    const rolling = new Play().calls(sliding)
    const { length } = rolling.models.estimate
    expect(rolling.models.remaining(LIMIT, 2100)).toBe(rolling.ledger.remainingWithin(LIMIT, length, 2100))
  })

  test('is learnt anew once all models are contradicted', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    play.calls([
      [2300, 2],
      [2310, 1],
      [2320, 2],
      [2330, 1],
    ])
    expect(describeModels(play)).not.toMatch(/contradicted.*contradicted.*contradicted/)
    expect(play.models.all.fixed.min).toBeLessThan(900)
  })
})

describe('the start of a fixed window', () => {
  test('is not known by an answer that may not be counted', () => {
    const play = new Play().calls([
      [0, 1],
      [300, 2],
    ])
    play.answer(play.send(1030), 1050, 1, false)
    expect(play.models.all.fixed.maxIfRequestStarts).toBe(Number.POSITIVE_INFINITY)
    play.calls([[1300, 2]])
    expect(play.models.all.fixed.observedMax).toBe(Number.POSITIVE_INFINITY)
    expect(play.models.all.fixed.maxIfRequestStarts).toBe(1300)
  })

  test('is nothing while no limit is known: calls are not charged to a window', () => {
    const play = new Play()
    play.answer(play.send(0), 20, null, true, null)
    expect(play.models.window.charged).toBe(0)
    expect(play.ledger.completed).toBe(1)
  })

  test('makes the headroom of another client a little smaller', () => {
    const play = new Play()
    play.shared.onRejected(5, LIMIT, 0)
    const { headroom } = play.shared
    play.calls(SECOND_WINDOWS)
    expect(play.shared.headroom).toBeCloseTo(headroom * 0.98 ** 2)
  })
})

describe('an idle time', () => {
  const demand = (play: Play, idleMs: number, furthestReset = 0): boolean => {
    play.models.onDemand(false, 3000, furthestReset)
    return play.models.onDemand(true, 3000 + idleMs, furthestReset)
  }

  test('is half a second or a fiftieth of the furthest Reset, and no more than half a minute', () => {
    expect(demand(new Play(), 500)).toBe(false)
    expect(demand(new Play(), 501)).toBe(true)
    expect(demand(new Play(), 1000, 60_000)).toBe(false)
    expect(demand(new Play(), 1300, 60_000)).toBe(true)
    expect(demand(new Play(), 30_001, 10_000_000)).toBe(true)
  })

  test('bounds no window that began before it', () => {
    const play = new Play().calls([
      [0, 1],
      [300, 2],
    ])
    expect(demand(play, 60_000)).toBe(true)
    play.calls([[63_000, 3]])
    expect(play.models.all.fixed.min).toBeLessThan(1000)
    play.calls([[63_100, 1]])
    expect(play.models.all.fixed.bounds.max).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('a call that was refused', () => {
  test('is another client’s doing if too few calls are ours', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    const call = play.ledger.send(2200, play.models.window, 0)
    play.models.onRejected(call, LIMIT, 2220)
    expect(play.shared.isDetected).toBe(true)
    expect(play.models.estimate.isFixed).toBe(false)
  })

  test('shows that a round length was too short if all calls are ours', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    const calls = Array.from({ length: 10 }, () => play.ledger.send(2200, play.models.window, 0))
    play.models.onRejected(calls[0]!, LIMIT, 2220)
    expect(play.shared.isDetected).toBe(false)
    expect(play.models.all.fixed.min).toBe(0)
    play.calls([
      [3200, 1],
      [4233, 1],
    ])
    expect(play.models.all.fixed.maxIfRequestStarts % 100).not.toBe(0)
  })
})

test('more calls than ours in two windows are another client’s', () => {
  const play = new Play().calls([
    [0, 3],
    [100, 4],
    [900, 5],
    [1030, 1],
    [1040, 9],
    [1100, 10],
  ])
  expect(play.shared.isDetected).toBe(true)
})

test('more calls than ours in one window are a predecessor’s, also where an answer comes after its end', () => {
  const play = new Play().calls([
    [0, 4],
    [100, 5],
  ])
  const late = play.send(900)
  play.calls([[1030, 1]])
  play.answer(late, 1060, 6)
  expect(play.shared.isDetected).toBe(false)
})
