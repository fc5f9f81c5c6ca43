import { expect, test } from 'vitest'
import { checkSequences } from '../../chaos/model/property.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

test('2,000 random sequences of events leave the state that the model predicts', async () => {
  let batches = 0
  await checkSequences({ database, worlds: 500, batches: 4, onBatch: () => batches++ })
  expect(batches * 500).toBe(2_000)
})
