import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { resultOf, send } from './ledger-script.ts'

describe('granted calls', () => {
  test('are given back latest first, so that a forgotten one still expires on time', () => {
    const ledger = new CallLedger()
    ledger.grant(1, 0)
    ledger.grant(1, 30_000)
    ledger.release(1)
    expect(ledger.grantsExpireAt).toBe(60_000)
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
    expect(ledger.room(LIMIT, -1)).toBe(10_000)
    expect(ledger.completedAfter(0)).toBe(90_000)
    expect(ledger.countedUpTo(90_000) - ledger.countedUpTo(12_345)).toBe(90_000 - 12_345)
    const within = LIMIT - ledger.room(LIMIT, 50_000)
    expect(within).toBeGreaterThanOrEqual(40_000)
    expect(within).toBeLessThan(40_000 * 1.005)
  })

  test('keeps what was remembered call by call before it was known', () => {
    const ledger = ledgerFor(10_000, 50)
    ledger.rememberFor(LIMIT)
    for (let n = 10_000; n < 30_000; n++) ledger.complete(resultOf(send(ledger, n), n + 1))
    expect(ledger.room(LIMIT, -1)).toBe(LIMIT - 30_000)
    expect(ledger.earliestSent(0, 5)).toBe(0)
  })

  test('that falls far is counted as well', () => {
    const ledger = ledgerFor(90_000, LIMIT)
    ledger.rememberFor(50)
    expect(ledger.room(50, 89_500)).toBeLessThan(0)
    expect(ledger.room(50, 90_100)).toBe(50)
    ledger.complete(resultOf(send(ledger, 91_100), 91_110))
    expect(ledger.room(50, 90_120)).toBe(49)
    expect(ledger.countedUpTo(90_001)).toBe(90_001)
  })
})
