import { expect, test } from 'vitest'
import { checkTurns } from '../../support/play-turns.ts'

/** `SEVERAL_CASES=100` takes half an hour: half of the passes are killed. */
const CASES = Number(process.env['SEVERAL_CASES'] ?? 10)

test('each service is called in its turn, and each cell is whose it is, whatever the configuration', async () => {
  await checkTurns(CASES, 12)
  expect.hasAssertions()
})
