import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/open.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

test('a statement that takes longer than the silence limit is not cut off', async () => {
  const db = openDatabase({ url: database.url, silentAfterMs: 300 })
  const { rows } = await sql<{ done: number }>`select 1 as done from pg_sleep(1.5)`.execute(db)
  expect(rows).toEqual([{ done: 1 }])
  await db.destroy()
})
