import { describe, expect, test } from 'vitest'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'

const LIMIT = 100

describe('another client of the key', () => {
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
    const callUntilGone = (detector: SharedKeyDetector, from: number): number => {
      let at = from
      while (detector.isPresent && at < from + 3_600_000) {
        at += 250
        detector.onUsage(at, at + 20, WINDOW)
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

    test('but not by a few calls long after: nobody looked in between', () => {
      const detector = seen()
      for (const at of [600_000, 1_200_000]) detector.onUsage(at, at + 20, WINDOW)
      expect(detector.isPresent).toBe(true)
      detector.onUsage(1_800_000, 1_800_020, WINDOW)
      expect(detector.isPresent).toBe(false)
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
