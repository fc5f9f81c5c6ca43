import { CompiledQuery } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/open.ts'
import { PREPARED_MARK } from '../../../src/store/sql.ts'
import { createTestDatabase } from '../../support/database.ts'

// A plan for the few rows of a run's beginning reads tables whole. Postgres keeps it until they are analyzed.
test('a prepared statement is planned again whenever it was sent four times as often', async () => {
  const database = await createTestDatabase()
  const db = openDatabase({ url: database.url, max: 1 })
  const text = `${PREPARED_MARK} select id from fillrate.lookups where id = any($1::bigint[])`
  const countPlanned = async (): Promise<number> => {
    const { rows } = await db.executeQuery<{ count: number }>(
      CompiledQuery.raw('select count(*) as count from pg_prepared_statements where statement = $1', [text]),
    )
    return rows[0]?.count ?? 0
  }
  try {
    const planned: number[] = []
    for (let n = 1; n <= 64; n++) {
      await db.executeQuery(CompiledQuery.raw(text, [[n]]))
      planned.push(await countPlanned())
    }
    expect([3, 4, 15, 16, 63, 64].map((n) => planned[n - 1])).toEqual([1, 2, 2, 3, 3, 4])
  } finally {
    await db.destroy()
    await database.drop()
  }
})
