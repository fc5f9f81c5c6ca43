import { expect, inject, test } from 'vitest'
import { fuzzCase } from '../../fuzz/case.ts'

// `npm run fuzz` is the long form, with a new seed each time. These seeds are fixed, so that a failure comes from the
// change at hand.
test('random tables, types, records, policies, settings and edits: every cell is what a cast of its value gives', async () => {
  const cells = await Promise.all([101, 102, 103].map((seed) => fuzzCase(inject('postgresUrl'), seed)))
  expect(Math.min(...cells)).toBeGreaterThan(200)
})
