import { beforeAll, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// Change data capture and logical replicas often publish all tables of a database. Postgres then refuses to update or
// delete rows of a table without a replica identity, whatever its wal_level.

const harness = useHarness({
  config: {
    ...crmConfig,
    sources: { contacts: { ...crmConfig.sources.contacts, key: 'id', follow: true } },
  },
  prepare: ({ pool }) => createCrm(pool, 60),
})
beforeAll(() => harness.query('create publication everything for all tables'))

test('the pipeline runs in a database that publishes all its tables', async () => {
  const app = await harness.open()
  for (const route of ['sync', 'bulk'] as const) {
    await harness.query(
      `insert into crm.contacts (email) select '${route}' || n || '@example.com' from generate_series(1, 150) n`,
    )
    const report = await app.run(runRequest({ route }))
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, write_rejected: 0, failed: 0 } })
  }
})

test('every table has a replica identity', async () => {
  const rows = await harness.query<{ name: string }>(`
    select c.relname as name from pg_class c
     where c.relnamespace = 'fillrate'::regnamespace and c.relkind in ('r', 'p')
       and not (c.relreplident = 'f' or c.relreplident = 'd' and exists (
         select from pg_index i where i.indrelid = c.oid and i.indisprimary))
     order by 1`)
  expect(rows.map(({ name }) => name)).toEqual([])
})

test('a source that is published without a replica identity is reported before anything is paid for', async () => {
  await harness.query(`
    alter table crm.contacts drop constraint contacts_pkey cascade;
    alter table crm.contacts add constraint contacts_id_unique unique (id);
    insert into crm.contacts (email) values ('last@example.com')`)
  await expect(harness.open()).rejects.toThrow(
    /cannot update table "contacts" because it does not have a replica identity[^]*set REPLICA IDENTITY/,
  )
})
