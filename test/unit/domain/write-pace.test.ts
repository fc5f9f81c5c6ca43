import fc from 'fast-check'
import { expect, test } from 'vitest'
import { grantWrites, LEAST_WRITES_PER_HOUR, type WritePace } from '../../../src/domain/write-pace.ts'

const HOUR = 3_600_000

/** Writes what is wanted after each pause, as far as it is allowed. */
function write(perHour: number, steps: readonly { readonly afterMs: number; readonly wanted: number }[]) {
  const written: { readonly at: number; readonly rows: number }[] = []
  let pace: WritePace | null = null
  let now = 1_764_000_000_000
  for (const { afterMs, wanted } of steps) {
    now += afterMs
    const { allowance, rows, waitMs } = grantWrites(perHour, pace, now)
    expect(rows > 0).toBe(waitMs === 0)
    const taken = Math.min(rows, wanted)
    pace = { allowance: allowance - taken, at: now }
    written.push({ at: now, rows: taken })
  }
  return written
}

const perHour = fc.integer({ min: LEAST_WRITES_PER_HOUR, max: 200_000 })

test('in no hour more is written than allowed', () => {
  const step = fc.record({
    afterMs: fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: HOUR / 2 })),
    wanted: fc.oneof(fc.constant(1_000_000), fc.integer({ min: 0, max: 500 })),
  })
  fc.assert(
    fc.property(perHour, fc.array(step, { maxLength: 300 }), (most, steps) => {
      const written = write(most, steps)
      for (const [n, { at }] of written.entries()) {
        const hour = written.slice(n).filter((one) => one.at < at + HOUR)
        expect(hour.reduce((sum, { rows }) => sum + rows, 0)).toBeLessThanOrEqual(most)
      }
    }),
  )
})

test('a writer that always has rows writes nearly as many as allowed, and not one by one', () => {
  fc.assert(
    fc.property(perHour, (most) => {
      const written = write(
        most,
        Array.from({ length: 7_200 }, () => ({ afterMs: 1_000, wanted: 1_000_000 })),
      ).filter(({ rows }) => rows > 0)
      const all = written.reduce((sum, { rows }) => sum + rows, 0)
      expect(all).toBeGreaterThan(2 * most * 0.9)
      // A batch at most every ten seconds, once the first burst is written.
      expect(written.length).toBeLessThan(2 * 370)
    }),
    { numRuns: 20, examples: [[376], [719], [LEAST_WRITES_PER_HOUR]] },
  )
})

test('what is waited for is allowed then, and a clock that was set back allows nothing for an hour', () => {
  fc.assert(
    fc.property(perHour, (most) => {
      const now = 1_764_000_000_000
      const { allowance, rows } = grantWrites(most, null, now)
      const pace = { allowance: allowance - rows, at: now }
      const { waitMs } = grantWrites(most, pace, now)
      expect(waitMs).toBeGreaterThan(0)
      expect(grantWrites(most, pace, now + Math.ceil(waitMs) + 1).rows).toBeGreaterThan(0)
      expect(grantWrites(most, pace, now - HOUR).allowance).toBe(pace.allowance)
      expect(grantWrites(most, pace, now - HOUR - 1).rows).toBe(rows)
    }),
  )
})
