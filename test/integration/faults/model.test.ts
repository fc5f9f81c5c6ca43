import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkSequences } from '../../chaos/model/property.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

test('2,000 random sequences of events leave the state that the model predicts', async () => {
  let batches = 0
  await checkSequences({ database, worlds: 500, batches: 4, onBatch: () => batches++ })
  expect(batches * 500).toBe(2_000)
})
