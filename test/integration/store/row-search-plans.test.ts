import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/open.ts'
import { type RowFilter, searchRows } from '../../../src/store/row-search.ts'
import { createTestDatabase } from '../../support/database.ts'

const FINISHED = 20_000
const WAITING = 20
const filter: RowFilter = {
  source: null,
  state: 'waiting',
  reason: null,
  run: null,
  identity: null,
}

test('a search for waiting rows reads none of the finished ones', async (context) => {
  const database = await createTestDatabase()
  const db = openDatabase({ url: database.url, max: 1 })
  try {
    const hasFlush = await database.scalar<boolean>(`current_setting('server_version_num')::int >= 150000`)
    if (!hasFlush) context.skip()
    await database.query(`
      insert into fillrate.rows (source, key, state, settled_at, run_id)
      select 'a', n, 'enriched', now(), 1 from generate_series(1, ${FINISHED}) n;
      insert into fillrate.rows (source, key, state, run_id) select 'a', 'w' || n, 'waiting', 2 from generate_series(1, ${WAITING}) n;
      analyze fillrate.rows;
      select pg_stat_force_next_flush()`)
    const countRead = async (): Promise<number> => {
      await sql`select pg_stat_force_next_flush()`.execute(db)
      const { rows } = await sql<{ reads: number }>`
        select (seq_tup_read + idx_tup_fetch)::bigint as reads from pg_stat_user_tables
         where schemaname = 'fillrate' and relname = 'rows'`.execute(db)
      return rows[0]?.reads ?? Number.NaN
    }
    for (const source of [null, 'a']) {
      const before = await countRead()
      const page = { sort: 'key', cursor: null, limit: 50 } as const
      expect(await searchRows(db, { ...filter, source }, page)).toHaveLength(WAITING)
      expect((await countRead()) - before).toBeLessThan(10 * WAITING)
    }
  } finally {
    await db.destroy()
    await database.drop()
  }
})
