import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { isTransient, inTransaction, withTableTimeouts } from '../../../src/store/transaction.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

const ROWS = 60

let hasTimeout = false
const harness = useHarness({
  config: crmConfig,
  prepare: async ({ pool }) => {
    await createCrm(pool, ROWS)
    const { rows } = await pool.query<{ name: string; known: boolean }>(
      `select current_database() as name, exists (select from pg_settings where name = 'transaction_timeout') as known`,
    )
    hasTimeout = rows[0]?.known === true
    if (hasTimeout) await pool.query(`alter database "${rows[0]?.name}" set transaction_timeout = '600ms'`)
    await pool.query(`
        create function crm.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$;
        create trigger slow before update on crm.contacts for each row execute function crm.slow()`)
  },
})

test('a transaction that was ended because it paused too long is tried again', async () => {
  const { db } = harness.database
  const paused = inTransaction(db, async (tx) => {
    await sql`set local idle_in_transaction_session_timeout = '50ms'`.execute(tx)
    await setTimeout(300)
    await sql`select 1`.execute(tx)
  })
  const error = await paused.catch((thrown: unknown) => thrown)
  expect(isTransient(error)).toBe(true)
})

// As unavailable, the same page would be read for ever.
test('a table that is read for longer than a transaction may last is slow', async (context) => {
  if (!hasTimeout) context.skip()
  const read = inTransaction(harness.database.db, async (tx) => {
    await sql`set local transaction_timeout = '100ms'`.execute(tx)
    return withTableTimeouts(tx, 30_000, () => sql`select pg_sleep(5)`.execute(tx))
  })
  const error = await read.catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ name: 'TableBusyError', reason: 'slow' })
  expect(isTransient(error)).toBe(false)
})

test('rows are written in smaller batches where Postgres bounds the time of a transaction', async (context) => {
  // Since Postgres 17.
  if (!hasTimeout) context.skip()
  const app = await harness.open()
  const report = await app.run(runRequest({ route: 'bulk' }))
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, write_rejected: 0, failed: 0 } })
})
