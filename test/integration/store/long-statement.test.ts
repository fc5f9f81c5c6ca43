import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { differsSql } from '../../../src/sources/cell.ts'
import type { Fit } from '../../../src/sources/catalogue.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { inTableTransaction, inTransaction, type Tx } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

test('a statement that takes longer than the silence limit is not cut off', async () => {
  const db = openDatabase({ url: database.url, silentAfterMs: 300 })
  const { rows } = await sql<{ done: number }>`select 1 as done from pg_sleep(1.5)`.execute(db)
  expect(rows).toEqual([{ done: 1 }])
  await db.destroy()
})

test.each([
  ['enum', 'mood', { kind: 'enum', values: ['a', 'b'] }],
  ['array', 'int[]', { kind: 'array', element: { kind: 'integer' } }],
])("another role's operator for an %s is not called", async (_, type, fit) => {
  const { db } = database
  await sql`drop type if exists mood`.execute(db)
  await sql`create type mood as enum ('a', 'b')`.execute(db)
  await sql
    .raw(`create or replace function spy(${type}, ${type}) returns boolean language plpgsql as
    $$ begin raise exception 'called with the rights of %', current_user; end $$`)
    .execute(db)
  await sql.raw(`create operator = (function = spy, leftarg = ${type}, rightarg = ${type})`).execute(db)
  const one = type === 'mood' ? `'a'::mood` : `'{1}'::int[]`
  const { rows } = await sql
    .raw(
      `select ${differsSql(one, one, fit as Fit)} as same, ${differsSql(one, `null::${type}`, fit as Fit)} as blank,
       ${differsSql(`null::${type}`, `null::${type}`, fit as Fit)} as both`,
    )
    .execute(db)
  expect(rows).toEqual([{ same: false, blank: true, both: false }])
  await sql.raw(`drop operator = (${type}, ${type})`).execute(db)
  await sql.raw(`drop function spy(${type}, ${type})`).execute(db)
})

test('a transaction has its timeouts from its first statement on, and leaves none behind', async () => {
  const names = [
    'statement_timeout',
    'lock_timeout',
    'idle_in_transaction_session_timeout',
    'extra_float_digits',
    'jit',
  ]
  const read = async (on: Tx | typeof database.db): Promise<string> => {
    const settings = names.map((name) => sql`current_setting(${sql.lit(name)})`)
    const { rows } = await sql<{ all: string }>`select concat_ws(' ', ${sql.join(settings)}) as all`.execute(
      on,
    )
    return rows[0]?.all ?? ''
  }
  expect(await inTransaction(database.db, read)).toBe('0 0 30s 1 off')
  expect(await inTransaction(database.db, read, 1_234)).toBe('1234ms 0 30s 1 off')
  const both = await inTableTransaction(
    database.db,
    async (tx, onTable) => [await onTable(() => read(tx)), await read(tx)],
    { tableMs: 700, laterMs: 1_234 },
  )
  expect(both).toEqual(['700ms 500ms 30s 1 off', '1234ms 0 30s 1 off'])
  expect(await read(database.db)).toBe('0 0 0 1 off')
})
