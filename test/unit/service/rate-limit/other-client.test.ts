import { describe, expect, test } from 'vitest'
import { OtherClient } from '../../../../src/service/rate-limit/other-client.ts'

const LIMIT = 100
const WINDOW = 3_000

describe('another client of the key', () => {
  test('is not what a previous process had in flight', () => {
    const other = new OtherClient()
    other.onDecrease(5, LIMIT, 0)
    other.onDecrease(2, LIMIT, 900)
    expect(other).toMatchObject({ isDetected: true, isPresent: false })
    other.onDecrease(2, LIMIT, 1000)
    expect(other.isPresent).toBe(true)
  })

  test('that the previous leader has proven is there until our own calls show that it is gone', () => {
    const other = new OtherClient()
    other.inherit()
    expect(other).toMatchObject({ isPresent: true, isDetected: false })
    for (let at = 100_000; at <= 101_000; at += 100) other.onUsage(at, at + 50, WINDOW)
    expect(other.isPresent).toBe(true)
    other.onDecrease(2, LIMIT, 101_100)
    expect(other).toMatchObject({ isPresent: true, isDetected: true })
    for (let at = 101_200; at <= 106_000; at += 100) other.onUsage(at, at + 50, WINDOW)
    expect(other.isPresent).toBe(false)
  })

  test('is left a third of what a header leaves, or twice what it has called since, and more after a refusal', () => {
    const other = new OtherClient()
    other.onDecrease(5, LIMIT, 0)
    expect(other.margin(30, 0, WINDOW, 10)).toBe(10)
    expect(other.margin(30, 0, WINDOW, 6_000)).toBe(24)
    expect(other.margin(1, 0, WINDOW, 10)).toBe(1)
    other.onRejected(1, LIMIT, 20)
    expect(other.margin(30, 20, WINDOW, 30)).toBe(14)
  })

  test('is left nothing once five minutes have shown no sign of it', () => {
    const other = new OtherClient()
    other.onRejected(5, LIMIT, 0)
    other.onUsage(299_000, 299_050, WINDOW)
    expect(other.isDetected).toBe(true)
    other.onUsage(300_100, 300_150, WINDOW)
    expect(other).toMatchObject({ isDetected: false, isPresent: false })
  })

  describe('is gone once our own calls show no sign of it', () => {
    /** Our calls, four in a second, of which the service counts no other. @returns how long until it is said to be gone */
    const callUntilGone = (other: OtherClient, from: number): number => {
      let at = from
      while (other.isPresent && at < from + 3_600_000) {
        at += 250
        other.onUsage(at, at + 20, WINDOW)
      }
      return at - from
    }
    const see = (other: OtherClient, at: number): void => {
      other.onDecrease(1, LIMIT, at)
      other.onUsage(at - 20, at, WINDOW)
    }
    const seen = (): OtherClient => {
      const other = new OtherClient()
      see(other, 0)
      see(other, 1_000)
      expect(other.isPresent).toBe(true)
      return other
    }

    test('but not by one call long after: nothing looked in between', () => {
      const other = seen()
      other.onUsage(60_000, 60_020, WINDOW)
      expect(other.isPresent).toBe(true)
      other.onUsage(120_000, 120_020, WINDOW)
      expect(other.isPresent).toBe(false)
    })

    test('for no longer than a minute; what comes back later is another visit', () => {
      const other = seen()
      let at = 1_000
      for (const pause of [2_000, 20_000, 50_000]) {
        for (const end = at + pause; at < end;) other.onUsage((at += 250), at + 20, WINDOW)
        see(other, at)
      }
      const quietMs = callUntilGone(other, at)
      expect(quietMs).toBeGreaterThan(55_000)
      expect(quietMs).toBeLessThan(65_000)
      for (const end = at + 600_000; at < end;) other.onUsage((at += 250), at + 20, WINDOW)
      see(other, at)
      see(other, at + 1_000)
      expect(callUntilGone(other, at + 1_000)).toBe(WINDOW)
    })
  })
})
