import { describe, expect, test } from 'vitest'
import { readCandidates } from '../../../src/pipeline/pick/candidates.ts'
import { openSource } from '../../../src/sources/source.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { createTestDatabase } from '../../support/database.ts'
import { tuplesReadSoFar } from '../../support/tuples-read.ts'
import { mapping } from '../sources/mapping.ts'

describe.each([
  ['a table without statistics', ''],
  ['one whose statistics are from before it was filled', 'analyze fillrate.rows;'],
])('a page of a source reads the state of each row once, in %s', (_, analyze) => {
  test.each([
    ['a number', 'bigint'],
    ['a text of another collation', 'text collate "C"'],
  ])('and with %s as its key', async (_type, type) => {
    const other = await createTestDatabase()
    try {
      await other.pool.query(`
        create table people (id ${type} primary key, email text, title text);
        insert into people (id, email) select n, n || '@example.com' from generate_series(1, 20000) n;
        insert into fillrate.rows (source, key, state, settled_at) select 'others', n, 'enriched', now() from generate_series(1, 20000) n;
        ${analyze}
        insert into fillrate.rows (source, key, state, settled_at) select 'people', n, 'enriched', now() from generate_series(1, 20000) n`)
      const source = await openSource(other.db, mapping())
      const read = { after: null, size: 1_000, where: null, changedSince: null, live: [], service: 0 }
      await inTransaction(other.db, async (tx) => {
        const before = await tuplesReadSoFar(tx)
        expect(await readCandidates(tx, source, read)).toMatchObject({ scanned: 1_000 })
        expect((await tuplesReadSoFar(tx)) - before).toBe(1_000)
      })
    } finally {
      await other.drop()
    }
  })
})
