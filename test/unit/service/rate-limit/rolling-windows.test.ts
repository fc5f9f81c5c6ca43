import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import {
  SlidingWindowModel,
  TokenBucketModel,
  type WindowModel,
} from '../../../../src/service/rate-limit/rolling-windows.ts'
import { resultOf, send } from './ledger-script.ts'

const LIMIT = 10

/** One call after the other; each takes 20 ms and is answered with how many are used. */
function play(model: WindowModel, ledger: CallLedger, calls: readonly (readonly [number, number])[]): void {
  for (const [sentAt, used] of calls) {
    const result = resultOf(send(ledger, sentAt), sentAt + 20, { used })
    ledger.complete(result)
    model.onAnswer(result, LIMIT, 0)
  }
}

describe('a sliding window', () => {
  const create = (isOdd = false) => {
    const ledger = new CallLedger()
    return { ledger, model: new SlidingWindowModel(ledger, isOdd) }
  }

  test('reaches back to the first of the calls that are counted', () => {
    const { ledger, model } = create()
    play(model, ledger, [
      [0, 1],
      [500, 2],
      [800, 3],
    ])
    expect(model.bounds.min).toBe(780)
  })

  test('does not reach a call that is no longer counted', () => {
    const { ledger, model } = create()
    play(model, ledger, [
      [0, 1],
      [500, 2],
      [1100, 2],
    ])
    expect(model.bounds).toMatchObject({ min: 580, max: 1120 })
    expect(model.safeLength).toBe(1100)
  })

  test('is taken for no round length once that was too short', () => {
    const { ledger, model } = create(true)
    play(model, ledger, [
      [0, 1],
      [500, 2],
      [1137, 2],
    ])
    expect(model.safeLength).toBe(1157)
  })

  test('is not bounded by calls from before an idle time', () => {
    const { ledger, model } = create()
    play(model, ledger, [[0, 1]])
    model.onIdle()
    play(model, ledger, [
      [5000, 1],
      [5100, 2],
    ])
    expect(model.bounds.max).toBe(Number.POSITIVE_INFINITY)
  })

  test('is contradicted by a window that loses all its calls at once', () => {
    const { ledger, model } = create()
    play(model, ledger, [
      [0, 1],
      [900, 2],
      [950, 3],
      [1001, 1],
    ])
    expect(model.isContradicted).toBe(true)
  })

  test('may count calls of another client in place of ours', () => {
    const { ledger, model } = create()
    for (const sentAt of [0, 500]) ledger.complete(resultOf(send(ledger, sentAt), sentAt + 20))
    const result = resultOf(send(ledger, 800), 820, { used: 3 })
    ledger.complete(result)
    model.onAnswer(result, LIMIT, 2)
    expect(model.bounds.min).toBe(0)
  })
})

describe('a token bucket', () => {
  const create = () => {
    const ledger = new CallLedger()
    return { ledger, model: new TokenBucketModel(ledger) }
  }

  /** 10 tokens a second: one comes back every 100 ms. */
  const refilled = [
    [0, 1],
    [20, 2],
    [40, 3],
    [60, 4],
    [80, 5],
    [480, 2],
    [500, 3],
  ] as const

  test('is as long as the limit over the rate at which calls come back', () => {
    const { ledger, model } = create()
    play(model, ledger, refilled)
    expect(model.bounds.max).toBeGreaterThanOrEqual(1000)
    expect(model.bounds.max).toBeLessThan(2000)
    expect(model.bounds.min).toBeLessThanOrEqual(1000)
  })

  test('is bounded from below only while it was certainly not full', () => {
    const { ledger, model } = create()
    play(model, ledger, [
      [0, 1],
      [20, 2],
      [5000, 1],
    ])
    expect(model.bounds.min).toBe(0)
    const busy = create()
    play(busy.model, busy.ledger, [
      [0, 6],
      [200, 6],
    ])
    expect(busy.model.bounds.min).toBeGreaterThan(0)
  })

  test('is not bounded across an idle time, in which it may have been full', () => {
    const { ledger, model } = create()
    play(model, ledger, refilled.slice(0, 5))
    model.onIdle()
    play(model, ledger, refilled.slice(5))
    expect(model.bounds.max).toBe(Number.POSITIVE_INFINITY)
  })

  test('is contradicted if nothing comes back for long and then everything', () => {
    const { ledger, model } = create()
    play(model, ledger, [
      [0, 1],
      [30, 2],
      [60, 3],
      [90, 4],
      [930, 5],
      [960, 6],
      [1001, 1],
    ])
    expect(model.isContradicted).toBe(true)
  })

  test('is measured from the first of the answers that arrive together', () => {
    const { ledger, model } = create()
    const [first, second] = [send(ledger, 0), send(ledger, 0)]
    for (const [call, used] of [
      [first, 1],
      [second, 6],
    ] as const) {
      const result = resultOf(call, 20, { used })
      ledger.complete(result)
      model.onAnswer(result, LIMIT, 0)
    }
    play(model, ledger, [[100, 1]])
    expect(model.bounds.max).toBe(Number.POSITIVE_INFINITY)
  })

  test('is measured by calls that are certainly counted only', () => {
    const { ledger, model } = create()
    const result = resultOf(send(ledger, 0), 20, { used: 1, isCounted: false })
    ledger.complete(result)
    model.onAnswer(result, LIMIT, 0)
    play(model, ledger, [[30, 1]])
    expect(model.bounds.max).toBe(Number.POSITIVE_INFINITY)
    const after = create()
    play(after.model, after.ledger, [[0, 2]])
    const uncounted = resultOf(send(after.ledger, 30), 50, { used: 1, isCounted: false })
    after.ledger.complete(uncounted)
    after.model.onAnswer(uncounted, LIMIT, 0)
    expect(after.model.bounds.max).toBe(Number.POSITIVE_INFINITY)
  })
})
