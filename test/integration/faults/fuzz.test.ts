import { expect, inject, test } from 'vitest'
import { fuzzCase } from '../../fuzz/case.ts'

// The long form is `npm run fuzz`, from a seed of its own each time. These are always the same, so that what fails here
// was broken by the change at hand.
test('random tables, types, records, policies, settings and edits: every cell is what a cast makes of it', async () => {
  const held = await Promise.all([101, 102, 103].map((seed) => fuzzCase(inject('postgresUrl'), seed)))
  expect(Math.min(...held.map(({ cells }) => cells))).toBeGreaterThan(200)
})
