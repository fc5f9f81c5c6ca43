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

  test('that the previous leader has proven is there until our own calls show that it is gone', () => {
    const detector = new SharedKeyDetector()
    detector.inherit()
    expect(detector).toMatchObject({ isPresent: true, isDetected: false, headroom: 0 })
    for (let at = 100_000; at <= 101_000; at += 100) detector.onUsage(at, at + 50, 3_000)
    expect(detector.isPresent).toBe(true)
    detector.onExcessDecrease(2, 0, LIMIT, 101_100)
    expect(detector).toMatchObject({ isPresent: true, isDetected: true, headroom: 3 })
    for (let at = 101_200; at <= 106_000; at += 100) detector.onUsage(at, at + 50, 3_000)
    expect(detector.isPresent).toBe(false)
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
    expect(detector.allowance(1000, 5000, 5000)).toBe(Math.ceil(10 * 0.13) + 1)
    detector.onRejected(1, LIMIT, 6000)
    const { headroom } = detector
    expect(detector.allowance(1000, 15_999, 15_999)).toBe(Math.ceil(headroom * 0.13 * 2) + 4)
    expect(detector.allowance(1000, 16_000, 16_000)).toBe(Math.ceil(headroom * 0.13) + 1)
  })

  test('is allowed its share of the time for which it was seen, whatever is known of the window', () => {
    const detector = new SharedKeyDetector()
    detector.onCompleted(100)
    detector.onExcessDecrease(9, 0, LIMIT, 0)
    for (const length of [1000, Number.POSITIVE_INFINITY]) {
      expect(detector.allowance(length, 0, 0)).toBe(11)
      expect(detector.allowance(length, 500, 500)).toBe(Math.ceil(10 * 0.26) + 1)
    }
  })

  test('is allowed more the older the latest header is', () => {
    const detector = new SharedKeyDetector()
    detector.onCompleted(100)
    detector.onExcessDecrease(9, 0, LIMIT, 0)
    expect(detector.allowance(1000, 4500, 5000)).toBe(Math.ceil(10 * 1.3 * 0.6) + 1)
    expect(detector.allowance(1000, 4000, 5000)).toBe(11)
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

  describe('is gone once our own calls show no sign of it', () => {
    const WINDOW = 3_000
    /** Our calls, four in a second, of which the service counts no other. @returns how long until it is said to be gone */
    const callUntilGone = (detector: SharedKeyDetector, from: number, windowMs = WINDOW): number => {
      let at = from
      while (detector.isPresent && at < from + 3_600_000) {
        at += 250
        detector.onUsage(at, at + 20, windowMs)
      }
      return at - from
    }
    const see = (detector: SharedKeyDetector, at: number): void => {
      detector.onExcessDecrease(1, 0, LIMIT, at)
      detector.onUsage(at - 20, at, WINDOW)
    }
    const seen = (): SharedKeyDetector => {
      const detector = new SharedKeyDetector()
      see(detector, 0)
      see(detector, 1_000)
      expect(detector.isPresent).toBe(true)
      return detector
    }

    test('for a window, though the caution lasts', () => {
      const detector = seen()
      expect(callUntilGone(detector, 1_000)).toBe(WINDOW)
      expect(detector).toMatchObject({ isDetected: true, isProven: true, isPresent: false })
      expect(detector.headroom).toBeGreaterThan(0)
    })

    test('for ten seconds of a longer window, or of one of unknown length', () => {
      expect(callUntilGone(seen(), 1_000, 3_600_000)).toBe(10_000)
      expect(callUntilGone(seen(), 1_000, Number.POSITIVE_INFINITY)).toBe(10_000)
    })

    test('but not by a few calls long after: nobody looked in between', () => {
      const detector = seen()
      for (const at of [600_000, 1_200_000]) detector.onUsage(at, at + 20, WINDOW)
      expect(detector.isPresent).toBe(true)
      detector.onUsage(1_800_000, 1_800_020, WINDOW)
      expect(detector.isPresent).toBe(false)
    })

    test('for twice its longest pause, so that what comes and goes is one trouble', () => {
      const detector = seen()
      let at = 1_000 + callUntilGone(detector, 1_000)
      see(detector, at)
      expect(detector.isPresent).toBe(true)
      for (let n = 0; n < 100; n++) {
        for (const end = at + 5_000; at < end;) detector.onUsage((at += 250), at + 20, WINDOW)
        expect(detector.isPresent).toBe(true)
        see(detector, at)
      }
      expect(callUntilGone(detector, at)).toBeGreaterThan(9_000)
    })

    test('for no longer than a minute or a window; what comes back later is another visit', () => {
      const detector = seen()
      let at = 1_000
      for (const pause of [2_000, 20_000, 50_000]) {
        for (const end = at + pause; at < end;) detector.onUsage((at += 250), at + 20, WINDOW)
        see(detector, at)
      }
      const quietMs = callUntilGone(detector, at)
      expect(quietMs).toBeGreaterThan(55_000)
      expect(quietMs).toBeLessThan(65_000)
      for (const end = at + 600_000; at < end;) detector.onUsage((at += 250), at + 20, WINDOW)
      see(detector, at)
      expect(callUntilGone(detector, at)).toBe(WINDOW)
    })
  })
})
