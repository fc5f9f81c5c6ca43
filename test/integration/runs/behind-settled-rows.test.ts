import { beforeAll, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'
import { onServer } from '../../support/server.ts'

const SETTLED = 20_000
const NEW = 1_000

// As after a nightly backfill: the statistics know the rows and lookups of one run, and nothing of those of the next.
const harness = useHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, SETTLED) })
beforeAll(() =>
  harness.query(`
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at)
    values ('manual', '{contacts}', 'completed', 'test', gen_random_uuid(), now(), now());
    insert into fillrate.lookups (kind, key, input, state, run_id, requested_at, resolved_at, refresh_at)
    select 'email', lower(email), '{}', 'not_found', 1, now(), now(), now() + interval '90 days'
      from crm.contacts group by lower(email) order by min(id);
    insert into fillrate.rows (source, key, lookup_id, state, run_id, settled_at, due_at)
    select 'contacts', t.id, l.id, 'not_found', 1, now(), now() + interval '90 days'
      from crm.contacts t join fillrate.lookups l on l.key = lower(t.email) order by t.id;
    insert into fillrate.row_counts (source, state, rows) values ('contacts', 'not_found', ${SETTLED});
    analyze`),
)

/** Rows of our tables that backends have read; each reports what it read before it is gone. */
async function rowsRead(): Promise<number> {
  return onServer(harness.database.url, async (client) => {
    await expect
      .poll(
        async () =>
          (
            await client.query(
              `select from pg_stat_activity where datname = current_database() and application_name = 'fillrate'`,
            )
          ).rowCount,
      )
      .toBe(0)
    const { rows } = await client.query<{ reads: number }>(`
      select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float8 as reads from pg_stat_user_tables
       where schemaname = 'fillrate'`)
    return rows[0]?.reads ?? Number.NaN
  })
}

test.each(['sync', 'bulk'] as const)(
  'what a run reads, one by one or in bulk (%s), grows with its own rows and not with their square',
  async (route) => {
    const before = await rowsRead()
    await harness.query(
      `insert into crm.contacts (email) select '${route}' || n || '@example.com' from generate_series(1, $1::int) n`,
      [NEW],
    )
    const report = await harness.run({ route, where: `t.email like '${route}%'` })
    expect(report).toMatchObject({ status: 'completed', rows: { picked: NEW, waiting: 0 } })
    expect((await rowsRead()) - before).toBeLessThan(200 * NEW)
  },
)
