import { expect, test } from 'vitest'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { hasPgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import { createTestDatabase } from '../../support/database.ts'

// A pooler in transaction mode gives what is outside of a transaction to any session: a lock of the session would be shared
// by all processes that migrate, or stay behind and keep the next ones waiting.

test.skipIf(!hasPgBouncer())(
  'behind PgBouncer in transaction mode, several processes that migrate at once create one schema',
  async () => {
    const database = await createTestDatabase()
    const url = new URL(database.url)
    // PgBouncer accepts no empty one.
    url.password ||= 'x'
    const pooler = await startPgBouncer(url)
    url.port = String(pooler.port)
    try {
      for (let round = 0; round < 3; round++) {
        await database.query('drop schema fillrate cascade')
        const others = Array.from({ length: 4 }, () => openDatabase({ url: url.href, max: 1 }))
        const applied = await Promise.all(others.map((db) => migrate(db)))
        expect(applied.filter((names) => names.length > 0)).toHaveLength(1)
        const own = 'database = (select oid from pg_database where datname = current_database())'
        expect(await database.count(`pg_locks where locktype = 'advisory' and ${own}`)).toBe(0)
        await Promise.all(others.map((db) => db.destroy()))
      }
    } finally {
      await pooler.stop()
      await database.drop()
    }
  },
)
