import { describe, expect, test } from 'vitest'
import { Cooldown } from '../../../../src/service/rate-limit/cooldown.ts'

describe('a cooldown after a 429', () => {
  test('lasts for Retry-After, else until Reset, and at least a second', () => {
    for (const [retryAfter, resetAt, until] of [
      [5000, 2000, 5000],
      [null, 2000, 2000],
      [null, null, 1000],
      [0, null, 1000],
    ] as const) {
      const cooldown = new Cooldown()
      expect(cooldown.onRejected(-10, 0, retryAfter, resetAt)).toBe(true)
      expect(cooldown.until).toBe(until)
      expect(cooldown.isActive(until - 1)).toBe(true)
      expect(cooldown.isActive(until)).toBe(false)
    }
  })

  test('is at least twice as long as the one before, until a call is accepted', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 0, null, null)
    cooldown.onRejected(1000, 1000, null, null)
    expect(cooldown.until).toBe(3000)
    cooldown.onAccepted(3000)
    cooldown.onRejected(4000, 4000, null, null)
    expect(cooldown.until).toBe(5000)
  })

  test('is not doubled by calls in flight when it began, nor ended by their answers', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 10, null, null)
    expect(cooldown.onRejected(5, 20, null, null)).toBe(false)
    expect(cooldown.until).toBe(1020)
    cooldown.onAccepted(8)
    cooldown.onRejected(1020, 1030, null, null)
    expect(cooldown.until).toBe(3030)
    expect(cooldown.rejections).toBe(3)
  })

  test('is at least twice as long as the Retry-After before', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 0, 5000, null)
    cooldown.onRejected(5000, 5000, null, null)
    expect(cooldown.until).toBe(15_000)
  })

  test('doubles from its own length, not from what calls in flight when it began were answered', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 10, null, null)
    cooldown.onRejected(5, 20, 5000, null)
    expect(cooldown.until).toBe(5020)
    cooldown.onRejected(5020, 5030, null, null)
    expect(cooldown.until).toBe(7030)
  })

  test('is never longer than 15 minutes by doubling alone', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 0, null, null)
    for (let count = 0; count < 20; count++) cooldown.onRejected(cooldown.until, cooldown.until, null, null)
    const before = cooldown.until
    cooldown.onRejected(before, before, null, null)
    expect(cooldown.until - before).toBe(15 * 60_000)
  })

  test('beside another client, two 429s within ten seconds are followed by none in these', () => {
    const cooldown = new Cooldown()
    cooldown.onRejected(0, 1000, null, null)
    cooldown.limitRejections()
    expect(cooldown.until).toBe(2000)
    cooldown.onRejected(2500, 3000, null, null)
    cooldown.limitRejections()
    expect(cooldown.until).toBe(11_000)
  })
})

describe('a ban', () => {
  test('is a 403 within a minute of the cooldown of a 429', () => {
    const cooldown = new Cooldown()
    expect(cooldown.isBanResponse(0)).toBe(false)
    cooldown.onRejected(0, 0, 1000, null)
    expect(cooldown.isBanResponse(60_999)).toBe(true)
    expect(cooldown.isBanResponse(61_000)).toBe(false)
  })

  test('is waited out with pauses of 30 s, 60 s, …, or for Retry-After', () => {
    const cooldown = new Cooldown()
    cooldown.onBanned(0, 0, null)
    expect(cooldown.until).toBe(30_000)
    cooldown.onBanned(10, 20, null)
    expect(cooldown.until).toBe(30_000)
    cooldown.onBanned(30_000, 30_000, null)
    expect(cooldown.until).toBe(90_000)
    cooldown.onBanned(90_000, 90_000, 300_000)
    expect(cooldown.until).toBe(390_000)
    expect(cooldown.isBan).toBe(true)
    cooldown.onAccepted(390_000)
    expect(cooldown.isBan).toBe(false)
  })

  test('is known to the next leader', () => {
    const cooldown = new Cooldown()
    cooldown.inheritBan()
    expect(cooldown.isBanResponse(0)).toBe(true)
  })
})

test('a 403 after a 429 is a ban until another call is answered; then two in a row are one', () => {
  const cooldown = new Cooldown()
  cooldown.onRejected(0, 10, 1_000, null)
  expect(cooldown.isBanResponse(2_000)).toBe(true)
  cooldown.onBanned(2_000, 2_010, null)
  cooldown.onAccepted(40_000)
  expect(cooldown.isBan).toBe(false)
  expect(cooldown.isBanResponse(40_100)).toBe(false)
  cooldown.onAccepted(40_200)
  expect(cooldown.isBanResponse(40_300)).toBe(false)
  expect(cooldown.isBanResponse(40_400)).toBe(true)
})
