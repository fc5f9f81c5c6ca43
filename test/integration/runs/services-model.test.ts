import { expect, test } from 'vitest'
import { checkTurns } from '../../support/play-turns.ts'

// More of them are in test/integration/faults.
test('each service is called in its turn, and each cell is whose it is, whatever the configuration', async () => {
  await checkTurns(2, 8)
  expect.hasAssertions()
})
