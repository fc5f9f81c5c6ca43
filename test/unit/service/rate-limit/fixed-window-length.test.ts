import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { FixedWindow } from '../../../../src/service/rate-limit/fixed-window.ts'
import { FixedWindowModel, ResetInstants } from '../../../../src/service/rate-limit/fixed-window-length.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'

const instant = (at: number, precision = 1000) => ({ kind: 'instant', at, precision }) as const

function create(isShared = false): FixedWindowModel {
  const shared = new SharedKeyDetector()
  shared.isDetected = isShared
  return new FixedWindowModel(new FixedWindow(new CallLedger()), shared)
}

/** Windows of which each starts no earlier than `after` and no later than `by`. */
function startAt(length: FixedWindowModel, starts: readonly (readonly [number, number, number])[]): void {
  for (const [after, by, previousFirstSentAt] of starts)
    length.onWindowStart({ after, by, previousFirstSentAt })
}

describe('the length of a fixed window', () => {
  test('cannot be one that the clock starts, unless the instants of Reset are whole lengths apart', () => {
    const aligned = create()
    const shifted = create()
    for (const length of [aligned, shifted])
      startAt(length, [
        [0, 60, Number.NaN],
        [4000, 4090, 3950],
      ])
    expect(aligned.bounds.max).toBe(4000)
    for (const at of [10_000, 14_000, 18_000]) aligned.onReset(instant(at, 1), 0, 0)
    for (const at of [10_000, 13_300, 17_900]) shifted.onReset(instant(at, 1), 0, 0)
    expect(aligned.bounds.max).toBe(4000)
    expect(shifted.bounds.max).toBe(100)
  })

  test('is bounded by the latest sixteen windows only', () => {
    const length = create()
    const after = Number.NEGATIVE_INFINITY
    const others = Array.from({ length: 17 }, (_, index) => (index + 1) * 1000)
    length.onWindowStart({ after: 0, by: 0, previousFirstSentAt: Number.NaN })
    for (const at of others)
      length.onWindowStart({ after, by: at + (at < 17_000 ? 900 : 0), previousFirstSentAt: 0 })
    expect(length.observedMax).toBe(16_900 / 16)
  })

  test('is snapped to half seconds, and to no lattice, if another client may have started the window', () => {
    const length = create(true)
    startAt(length, [
      [0, 50, Number.NaN],
      [1000, 2330, 1900],
    ])
    expect(length.maxIfRequestStarts).toBe(2000)
    expect(length.observedMax).toBe(2330)
    for (const at of [10_000, 13_300, 17_900]) length.onReset(instant(at, 1), 0, 0)
    expect(length.bounds.max).toBe(2000)
  })
})

describe('the instants in Reset', () => {
  test('that differ by less than rounding are the same', () => {
    const instants = new ResetInstants()
    instants.record(instant(10_000), 0, 0)
    instants.record(instant(11_000), 0, 0)
    expect(instants.max).toBe(Number.POSITIVE_INFINITY)
  })

  test('of two stretches of work bound nothing: any number of windows lies between', () => {
    const instants = new ResetInstants()
    instants.record(instant(10_000, 1), 0, 0)
    instants.onIdle()
    instants.record(instant(90_000, 1), 0, 0)
    expect(instants.max).toBe(Number.POSITIVE_INFINITY)
  })

  test('exclude no length that is less than twice the rounding', () => {
    const instants = new ResetInstants()
    for (const at of [10_000, 13_740, 18_300])
      instants.record({ kind: 'delay', ms: 1000, precision: 1000 }, at, at)
    expect(instants.longestLattice(0, 1500)).toBe(1500)
  })

  test('give the longest length of which all are whole multiples apart', () => {
    const instants = new ResetInstants()
    for (const at of [10_000, 14_000, 20_000]) instants.record(instant(at, 1), 0, 0)
    expect(instants.longestLattice(0, 5000)).toBe(2000)
    expect(instants.longestLattice(2000, 5000)).toBe(0)
    expect(instants.longestLattice(0, 200_000)).toBe(200_000)
  })
})
