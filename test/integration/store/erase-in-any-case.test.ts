import { sql } from 'kysely'
import pino from 'pino'
import { expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createTestDatabase } from '../../support/database.ts'

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
    const named = { source: 'a', key: 'Info@MÜNCHEN.de' }
    await sql`
      insert into fillrate.rows (source, key, state, settled_at, due_at)
      values (${named.source}, ${named.key}, 'failed', now(), now())`.execute(db)
    await sql`
      insert into fillrate.changes (source, key, before, after)
      values (${named.source}, ${named.key}, '{}', '{}')`.execute(db)
    const target = parseForgetTarget('email', 'info@münchen.de')
    if (typeof target === 'string') throw new Error(target)
    const log = pino({ level: 'silent' })
    expect(await forgetSubject({ db, log }, [target], { dryRun: false })).toMatchObject({
      erased: { changes: 1 },
      rows: [named],
      remaining: [],
    })
    expect((await sql`select key from fillrate.rows`.execute(db)).rows).toEqual([])
  } finally {
    await db.destroy()
    await database.query(`drop database ${name} with (force)`)
    await database.drop()
  }
})
