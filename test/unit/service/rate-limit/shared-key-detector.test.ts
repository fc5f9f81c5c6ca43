import { describe, expect, test } from 'vitest'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'

const LIMIT = 100

describe('another client of the key', () => {
  test('is detected by an excess count in two windows, because one may be the previous process', () => {
    const detector = new SharedKeyDetector()
    detector.onExcessCount(3, 0, LIMIT)
    detector.onExcessCount(3, 0, LIMIT)
    expect(detector.isDetected).toBe(false)
    detector.onExcessCount(3, 1, LIMIT)
    expect(detector).toMatchObject({ isDetected: true, isProven: true, headroom: 4 })
  })

  test('is detected at once when Remaining falls by more than our calls, and proven a second later', () => {
    const detector = new SharedKeyDetector()
    detector.onExcessDecrease(2, 0, LIMIT, 0)
    expect(detector).toMatchObject({ isDetected: true, isProven: false, headroom: 3 })
    detector.onExcessDecrease(3, 0, LIMIT, 1000)
    expect(detector).toMatchObject({ isProven: true, headroom: 6 })
    detector.onExcessDecrease(1, 1, LIMIT, 2000)
    expect(detector.headroom).toBe(6)
  })

  test('gets more headroom after each 429, up to half of the limit', () => {
    const detector = new SharedKeyDetector()
    detector.onRejected(1, LIMIT, 0)
    expect(detector).toMatchObject({ isDetected: true, isProven: true, headroom: 1 })
    detector.onRejected(10, LIMIT, 0)
    expect(detector.headroom).toBe(4)
    for (let count = 0; count < 20; count++) detector.onRejected(50, LIMIT, 0)
    expect(detector.headroom).toBe(50)
  })

  test('is allowed what it may call while ours are in flight, and twice that and more after a 429', () => {
    const detector = new SharedKeyDetector()
    detector.onCompleted(100)
    detector.onExcessDecrease(9, 0, LIMIT, 0)
    expect(detector.allowance(1000, 0)).toBe(Math.ceil(10 * 0.13) + 1)
    expect(detector.allowance(Number.POSITIVE_INFINITY, 0)).toBe(11)
    detector.onRejected(1, LIMIT, 1000)
    const { headroom } = detector
    expect(detector.allowance(1000, 10_999)).toBe(Math.ceil(headroom * 0.13 * 2) + 4)
    expect(detector.allowance(1000, 11_000)).toBe(Math.ceil(headroom * 0.13) + 1)
  })

  test('is gone after 30 windows without a sign of it, after three if it was not proven', () => {
    const [proven, unproven] = [new SharedKeyDetector(), new SharedKeyDetector()]
    proven.onRejected(5, LIMIT, 0)
    unproven.onExcessDecrease(2, 0, LIMIT, 0)
    for (let window = 0; window < 3; window++) for (const one of [proven, unproven]) one.onNewWindow()
    expect(unproven.isDetected).toBe(true)
    unproven.onNewWindow()
    expect(unproven).toMatchObject({ isDetected: false, headroom: 0 })
    for (let window = 3; window < 30; window++) proven.onNewWindow()
    expect(proven.isDetected).toBe(true)
    proven.onNewWindow()
    expect(proven.isDetected).toBe(false)
  })
})
