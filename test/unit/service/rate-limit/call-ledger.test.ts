import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { ledgerOf, resultOf, send } from './ledger-script.ts'

describe('granted calls', () => {
  test('are taken by sending, or given back', () => {
    const ledger = new CallLedger()
    ledger.grant(3, 0)
    send(ledger, 1)
    ledger.release(1)
    expect(ledger.granted).toBe(1)
    expect(ledger.hasPending).toBe(true)
  })

  test('expire a minute after they were granted', () => {
    const ledger = new CallLedger()
    ledger.grant(2, 0)
    expect(ledger.grantsExpireAt).toBe(60_000)
    ledger.expireGrants(59_999)
    expect(ledger.granted).toBe(2)
    ledger.expireGrants(60_000)
    expect(ledger.granted).toBe(0)
    expect(ledger.grantsExpireAt).toBe(null)
  })

  test('are given back latest first, so that a forgotten one still expires on time', () => {
    const ledger = new CallLedger()
    ledger.grant(1, 0)
    ledger.grant(1, 30_000)
    ledger.release(1)
    expect(ledger.grantsExpireAt).toBe(60_000)
  })
})

describe('completed calls', () => {
  test('a call knows how many calls had been completed when it was sent', () => {
    const ledger = new CallLedger()
    const first = send(ledger, 0)
    const second = send(ledger, 10)
    ledger.complete(resultOf(first, 50))
    expect([first, second, send(ledger, 60)].map((call) => call.completedBefore)).toEqual([0, 0, 1])
    expect(ledger.outstanding).toBe(2)
  })

  test('are found by the moment of their answer', () => {
    const ledger = ledgerOf([0, 100, 200])
    expect(ledger.receivedAt(1)).toBe(150)
    expect(ledger.receivedAt(3)).toBe(null)
    expect(ledger.completedSince(150)).toBe(2)
    expect(ledger.earliestSent(1, 3)).toBe(100)
  })

  test('the last n that were certainly counted skip those that may not be', () => {
    const ledger = new CallLedger()
    for (const isCounted of [true, true, false, true])
      ledger.complete(resultOf(send(ledger, 0), 10, { isCounted }))
    expect(ledger.countedUpTo(4)).toBe(3)
    expect(ledger.sinceCounted(1, 4)).toBe(3)
    expect(ledger.sinceCounted(2, 4)).toBe(1)
    expect(ledger.sinceCounted(4, 4)).toBe(null)
  })
})

describe('places held for one length', () => {
  test('a call holds its place until one length after its answer', () => {
    const ledger = ledgerOf([0, 100])
    expect(ledger.remainingWithin(5, 1000, 1052)).toBe(3)
    expect(ledger.remainingWithin(5, 1000, 1053)).toBe(4)
    expect(ledger.nextLeavesAt(5, 1000, 1000)).toBeCloseTo(1052.1)
    expect(ledger.nextLeavesAt(5, 1000, 1053)).toBeCloseTo(1152.1)
    expect(ledger.nextLeavesAt(5, 1000, 1153)).toBe(null)
  })

  test('nothing is known while no length is', () => {
    const ledger = ledgerOf([0])
    expect(ledger.remainingWithin(5, Number.POSITIVE_INFINITY, 100)).toBe(Number.NEGATIVE_INFINITY)
    expect(ledger.nextLeavesAt(5, Number.POSITIVE_INFINITY, 100)).toBe(null)
  })

  test('calls granted and in flight hold one too', () => {
    const ledger = ledgerOf([0])
    ledger.grant(1, 0)
    send(ledger, 100)
    ledger.grant(1, 200)
    expect(ledger.remainingWithin(5, 1000, 300)).toBe(2)
  })

  test('while more than the limit are counted, only the last ones matter', () => {
    expect(ledgerOf([0, 100, 200]).nextLeavesAt(2, 1000, 300)).toBeCloseTo(1152.1)
  })

  test('nothing is left by this count if older calls than are remembered may hold one', () => {
    const ledger = ledgerOf(Array.from({ length: 16_385 }, (_, index) => index))
    expect(ledger.remainingWithin(20_000, 60_000, 16_500)).toBe(Number.NEGATIVE_INFINITY)
  })
})

describe('a limit of more calls than there are entries', () => {
  const LIMIT = 100_000
  const ledgerFor = (calls: number, limit: number): CallLedger => {
    const ledger = new CallLedger()
    ledger.rememberFor(limit)
    for (let n = 0; n < calls; n++) ledger.complete(resultOf(send(ledger, n), n + 1))
    return ledger
  }

  test('is counted call by call, but for one in several thousand', () => {
    const ledger = ledgerFor(90_000, LIMIT)
    expect(ledger.remainingWithin(LIMIT, 1e9, 90_000)).toBe(10_000)
    expect(ledger.completedSince(0)).toBe(90_000)
    expect(ledger.countedUpTo(90_000) - ledger.countedUpTo(12_345)).toBe(90_000 - 12_345)
    const within = LIMIT - ledger.remainingWithin(LIMIT, 40_000, 90_000)
    expect(within).toBeGreaterThanOrEqual(40_000)
    expect(within).toBeLessThan(40_000 * 1.005)
  })

  test('keeps what was remembered call by call before it was known', () => {
    const ledger = ledgerFor(10_000, 50)
    ledger.rememberFor(LIMIT)
    for (let n = 10_000; n < 30_000; n++) ledger.complete(resultOf(send(ledger, n), n + 1))
    expect(ledger.remainingWithin(LIMIT, 1e9, 30_000)).toBe(LIMIT - 30_000)
    expect(ledger.earliestSent(0, 5)).toBe(0)
  })

  test('that falls far is counted call by call again, once what came before is too old', () => {
    const ledger = ledgerFor(90_000, LIMIT)
    ledger.rememberFor(50)
    expect(ledger.remainingWithin(50, 1_000, 90_500)).toBe(Number.NEGATIVE_INFINITY)
    expect(ledger.remainingWithin(50, 1_000, 91_100)).toBe(50)
    ledger.complete(resultOf(send(ledger, 91_100), 91_110))
    expect(ledger.remainingWithin(50, 1_000, 91_120)).toBe(49)
    expect(ledger.countedUpTo(90_001)).toBe(90_001)
  })
})
