import type pg from 'pg'
import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/load.ts'
import { openSource } from '../../src/sources/source.ts'
import { rowInputsSql } from '../../src/sources/inputs.ts'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { environmentFor, runRequest } from '../../test/support/environment.ts'
import type { Task } from '../throughput/candidate.ts'

/** Rows that a real run settles; the others are copies of what it left. */
const MODEL_ROWS = 100

/**
 * The configuration of the table. Every row lacks one column that the service never fills, so that a pass has to compare
 * the inputs of each.
 */
export const scaleConfig = (): object => ({
  sources: {
    people: {
      kind: 'person',
      table: 'crm.people',
      inputs: { email: 't.email' },
      outputs: {
        title: 'title',
        phone: 'phone',
        seniority: 'seniority',
        nickname: { field: 'nickname', unlisted: true },
      },
    },
  },
  budget: 'unlimited',
})

/** A second table of the same size, of which nothing is enriched yet. */
export const LEADS_CONFIG = {
  sources: {
    leads: { kind: 'person', table: 'crm.leads', inputs: { email: 't.email' }, outputs: { title: 'title' } },
  },
  budget: 'unlimited',
}

/** Creates the table without rows. */
export const createPeople = (client: pg.Client): Promise<unknown> =>
  client.query(`
    create schema crm;
    create table crm.people (
      id bigint primary key, email text not null, title text, phone text, seniority text, nickname text,
      updated_at timestamptz not null default now() - interval '30 days'
    );
    create index on crm.people (updated_at)`)

/** Creates a table with this many rows, all of them enriched by Fillrate. */
export async function createSettledTable(
  client: pg.Client,
  url: string,
  service: Task['service'],
  rows: number,
): Promise<void> {
  const db = openDatabase({ url, max: 1 })
  await migrate(db)
  await createPeople(client)
  await insertPeople(client, 1, MODEL_ROWS)
  const config = parseConfig(scaleConfig(), null)
  const app = await openApp({
    config,
    environment: { ...environmentFor(url, service), logLevel: 'warn' },
    log: pino({ level: 'warn' }, pino.destination(2)),
  })
  const report = await app.run(runRequest())
  await app.close()
  if (report.rows.enriched === 0) throw new Error('the model run enriched no row')

  const [mapping] = Object.values(config.sources)
  if (mapping === undefined) throw new Error('the configuration has one source')
  const { hash } = rowInputsSql(await openSource(db, mapping))
  await db.destroy()
  // As the run left it, but in minutes: no trigger, and each index is built once.
  await client.query(`set session_replication_role = replica; set maintenance_work_mem = '512MB'`)
  const restoreIndexes = await dropIndexes(client)
  // The free space is for the record that a lookup gets later; these have theirs.
  await client.query('alter table fillrate.lookups set (fillfactor = 90)')
  await client.query(
    `insert into crm.people (id, email, title, phone, seniority)
     select n, 'Person' || n || '@Example.com', m.title, m.phone, m.seniority
       from generate_series($1::bigint, $2::bigint) n cross join (
         select * from crm.people where id = (select key::bigint from fillrate.rows where state = 'enriched' limit 1)) m`,
    [MODEL_ROWS + 1, rows],
  )
  const copied = async (
    table: string,
    values: Parameters<typeof copySql>[2],
    model: string,
  ): Promise<void> => {
    const { insert, select } = await copySql(client, table, values)
    const overriding = table === 'lookups' ? 'overriding system value' : ''
    await client.query(
      `${insert} ${overriding} ${select} from crm.people t cross join (select * from fillrate.${table} ${model} limit 1) m
        where t.id > ${MODEL_ROWS} order by t.id`,
    )
  }
  await copied(
    'lookups',
    { id: 't.id', key: 'lower(t.email)', input: `jsonb_build_object('email', lower(t.email))` },
    `where state = 'found'`,
  )
  await copied('rows', { key: 't.id::text', lookup_id: 't.id', input_hash: hash }, `where state = 'enriched'`)
  await copied('changes', { id: null, key: 't.id::text', lookup_id: 't.id' }, '')
  await restoreIndexes()
  await client.query(`
    reset session_replication_role;
    alter table fillrate.lookups set (fillfactor = 19);
    delete from fillrate.row_counts;
    insert into fillrate.row_counts (source, state, rows) select source, state, count(*) from fillrate.rows group by 1, 2;
    select setval(pg_get_serial_sequence('fillrate.lookups', 'id'), (select max(id) from fillrate.lookups));
    create table crm.leads as select id, 'lead' || id || '@example.com' as email, null::text as title from crm.people;
    alter table crm.leads add primary key (id)`)
  await client.query('vacuum analyze')
  await client.query('checkpoint')
}

/** Drops the indexes of the large tables that no constraint needs. @returns creates them again */
async function dropIndexes(client: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ name: string; definition: string }>(`
    select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
     where indrelid in ('fillrate.lookups'::regclass, 'fillrate.rows'::regclass, 'fillrate.changes'::regclass, 'crm.people'::regclass)
       and not exists (select from pg_constraint where conindid = indexrelid)`)
  for (const { name } of rows) await client.query(`drop index ${name}`)
  return async () => {
    for (const { definition } of rows) await client.query(definition)
  }
}

/** Adds people of whom nothing is known. */
export const insertPeople = (client: pg.Client, from: number, to: number): Promise<unknown> =>
  client.query(
    `insert into crm.people (id, email) select n, 'Person' || n || '@Example.com' from generate_series($1::bigint, $2::bigint) n`,
    [from, to],
  )

/** An INSERT of copies of the row `m`, with other values for some columns; null leaves a column out. */
async function copySql(
  client: pg.Client,
  table: string,
  values: Readonly<Record<string, string | null>>,
): Promise<{ readonly insert: string; readonly select: string }> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute
      where attrelid = ('fillrate.' || $1)::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
    [table],
  )
  const names = rows.map(({ name }) => name).filter((name) => values[name] !== null)
  return {
    insert: `insert into fillrate.${table} (${names.map((name) => `"${name}"`).join(', ')})`,
    select: `select ${names.map((name) => values[name] ?? `m."${name}"`).join(', ')}`,
  }
}
