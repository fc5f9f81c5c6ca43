import { expect, test } from 'vitest'
import {
  countMatches,
  eraseCells,
  findCells,
  listTextColumns,
  type TextColumn,
} from '../../../src/store/erase-mentions.ts'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createTestDatabase } from '../../support/database.ts'

const PATTERN = 'info@(?:xn--mnchen-3ya|münchen)[.]de'
const NAMED = 'Info@MÜNCHEN.de'

// Compared by its bytes, as the key's index does, only ASCII letters match in any case. The server of the tests has no other collation.
test('a person is found in any case where the database knows the letters', async (context) => {
  const database = await createTestDatabase()
  const name = `utf8_${database.url.slice(-12)}`
  const hasBuiltin = await database.scalar<boolean>(`current_setting('server_version_num')::int >= 170000`)
  if (!hasBuiltin) {
    await database.drop()
    context.skip()
  }
  await database.query(
    `create database ${name} template template0 locale 'C' locale_provider builtin builtin_locale 'C.UTF-8'`,
  )
  const url = new URL(database.url)
  url.pathname = `/${name}`
  const db = openDatabase({ url: url.href, max: 2 })
  try {
    await migrate(db)
    await db
      .insertInto('fillrate.rows')
      .values({
        source: 'a',
        key: NAMED,
        state: 'failed',
        settled_at: new Date(),
        due_at: new Date(),
      } as never)
      .execute()
    await db
      .insertInto('fillrate.changes')
      .values({ source: 'a', key: NAMED, before: '{}', after: '{}' } as never)
      .execute()
    await db.transaction().execute(async (tx) => {
      const isKey = ({ table, column }: TextColumn): boolean =>
        (table === 'rows' || table === 'changes') && column === 'key'
      const columns = (await listTextColumns(tx)).filter(isKey)
      expect(columns).toHaveLength(2)
      for (const column of columns) expect(await countMatches(tx, column, PATTERN)).toBe(1)
      const rows = await findCells(tx, 'rows', PATTERN)
      const changes = await findCells(tx, 'changes', PATTERN)
      expect(await eraseCells(tx, { rows, changes }, PATTERN)).toEqual({
        rows: [{ source: 'a', key: NAMED }],
        changes: 1,
        mentions: 0,
      })
      const left = await tx.selectFrom('fillrate.due_rows').select('keys').execute()
      expect(left).toEqual([{ keys: [] }])
    })
  } finally {
    await db.destroy()
    await database.query(`drop database ${name} with (force)`)
    await database.drop()
  }
})
