import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/open.ts'
import { inTableTransaction, inTransaction, type Tx } from '../../../src/store/transaction.ts'
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

test('a transaction has its timeouts from its first statement on, and leaves none behind', async () => {
  const names = [
    'statement_timeout',
    'lock_timeout',
    'idle_in_transaction_session_timeout',
    'extra_float_digits',
  ]
  const read = async (on: Tx | typeof database.db): Promise<string> => {
    const settings = names.map((name) => sql`current_setting(${sql.lit(name)})`)
    const { rows } = await sql<{ all: string }>`select concat_ws(' ', ${sql.join(settings)}) as all`.execute(
      on,
    )
    return rows[0]?.all ?? ''
  }
  expect(await inTransaction(database.db, read)).toBe('0 0 30s 1')
  expect(await inTransaction(database.db, read, 1_234)).toBe('1234ms 0 30s 1')
  const both = await inTableTransaction(
    database.db,
    async (tx, onTable) => [await onTable(() => read(tx)), await read(tx)],
    { tableMs: 700, laterMs: 1_234 },
  )
  expect(both).toEqual(['700ms 500ms 30s 1', '1234ms 0 30s 1'])
  expect(await read(database.db)).toBe('0 0 0 1')
})
