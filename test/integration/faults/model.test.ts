import { expect, test } from 'vitest'
import { Batch } from '../../chaos/model/batch.ts'
import {
  groupWorlds,
  MAX_DRAWN,
  sharedCommand,
  type SharedCommand,
  type WorldCommand,
} from '../../chaos/model/commands.ts'
import { checkSequences } from '../../chaos/model/property.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

test('2,000 random sequences of events leave the state that the model predicts', async () => {
  let batches = 0
  await checkSequences({ database, worlds: 500, batches: 4, onBatch: () => batches++ })
  expect(batches * 500).toBe(2_000)
})

/** Of four worlds the first that does not begin enriched, and the draw by which its first person is erased. */
const WORLD = 2
const ERASER = { worker: 2, row: 0 }

/** What is drawn for a command of the world, or of all. */
const draw = (name: WorldCommand | SharedCommand, { worker, row } = { worker: 0, row: 0 }): number => {
  const drawn = Array.from({ length: MAX_DRAWN }, (_, number) => number)
  const read = (number: number) => [sharedCommand(number), [...groupWorlds([number])][0]?.command]
  const isIt = (number: number) =>
    read(number).some((one) => one?.name === name && one.worker === worker && one.row === row)
  return drawn.find(isIt) ?? 0
}

test.each<[string, ...[WorldCommand, SharedCommand][]]>([
  ['answered by a call', ['pick', 'none'], ['call', 'none'], ['change_input', 'forget'], ['found', 'none']],
  [
    'answered by a job',
    ['pick', 'submit'],
    ['change_input', 'forget'],
    ['idle', 'deliver'],
    ['idle', 'settle'],
  ],
  ['leased, and called late', ['pick', 'none'], ['lease', 'forget'], ['call_leased', 'none']],
])('what was under way when its person was erased is neither lost nor requested: %s', async (_, ...steps) => {
  const batch = await Batch.open(database, 4)
  try {
    for (const [command, shared] of steps) {
      const worlds = [0, 1, 2, 3].map((world) => draw(world === WORLD ? command : 'idle'))
      await batch.step(worlds, draw(shared, shared === 'forget' ? ERASER : undefined))
    }
    expect(await batch.findViolations()).toEqual([])
  } finally {
    await batch.close()
  }
})
