import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  addRefusal,
  describeRefusal,
  isRefusing,
  isSuspected,
  type Refusals,
} from '../../../src/domain/refusal.ts'

const fold = (times: readonly number[]): Refusals | null =>
  times.reduce<Refusals | null>((before, at) => addRefusal(before, '53100', at), null)

describe('Postgres refuses statements', () => {
  test('when it has for a second, and until nothing was refused for seven', () => {
    expect(isRefusing(fold([0]), 10)).toBe(false)
    expect(isRefusing(fold([0, 900]), 1_000)).toBe(false)
    expect(isRefusing(fold([0, 1_000]), 1_000)).toBe(true)
    expect(isRefusing(fold([0, 1_000]), 7_999)).toBe(true)
    expect(isRefusing(fold([0, 1_000]), 8_000)).toBe(false)
    // Once in a while is no condition, and a reason to look.
    expect(isRefusing(fold([0, 8_000, 16_000]), 16_000)).toBe(false)
    expect(isSuspected(fold([0]), 59_999)).toBe(true)
    expect(isSuspected(fold([0]), 60_000)).toBe(false)
    expect(isSuspected(null, 0)).toBe(false)
  })

  test('and what waits up to five seconds for its next try keeps it so', () => {
    const gaps = fc.array(fc.integer({ min: 1, max: 6_500 }), { minLength: 2, maxLength: 30 })
    fc.assert(
      fc.property(gaps, (waits) => {
        let at = 0
        const times = waits.map((ms) => (at += ms))
        const span = at - (times[0] ?? 0)
        expect(isRefusing(fold(times), at)).toBe(span >= 1_000)
        expect(isRefusing(fold(times), at + 7_000)).toBe(false)
      }),
    )
  })
})

test('only what concerns every statement is a refusal', () => {
  for (const state of ['25006', '53000', '53100', '53200', '53300', '53400', '58030'])
    expect(describeRefusal(state)?.title).toMatch(/^Postgres /)
  for (const state of ['23505', '40001', '42501', '57014', 'constructor', '', null])
    expect(describeRefusal(state)).toBeNull()
})
