import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { Batch } from '../../chaos/model/batch.ts'
import { MAX_DRAWN, sharedCommand, worldCommand } from '../../chaos/model/commands.ts'
import { checkSequences } from '../../chaos/model/property.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

test('2,000 random sequences of events leave the state that the model predicts', async () => {
  let batches = 0
  await checkSequences({ database, worlds: 500, batches: 4, onBatch: () => batches++ })
  expect(batches * 500).toBe(2_000)
})

/** The number that is drawn for a command. */
const draw = (name: string, worker = 0, row = 0): number =>
  Array.from({ length: MAX_DRAWN }).findIndex((_, drawn) =>
    [worldCommand(drawn), sharedCommand(drawn)].some((one) => isDeepStrictEqual(one, { name, worker, row })),
  )

test.each([
  ['pick', 'call', 'change_input forget', 'found'],
  ['pick submit', 'change_input forget', 'idle deliver', 'idle settle'],
  ['pick', 'lease forget', 'call_leased'],
])('what was under way at an erasure is neither lost nor a request: %s, %s, %s', async (...steps) => {
  const batch = await Batch.open(database, 4)
  for (const step of steps) {
    const [command = '', shared = 'none'] = step.split(' ')
    // The third world is not enriched at the beginning, and its first row is the one that worker 2 erases.
    await batch.step([draw('idle'), draw('idle'), draw(command)], draw(shared, shared === 'forget' ? 2 : 0))
  }
  expect(await batch.findViolations()).toEqual([])
})
