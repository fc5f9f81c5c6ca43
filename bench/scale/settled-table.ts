import type pg from 'pg'
import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/parse.ts'
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
export const scaleConfig = (options: { readonly changedAt?: boolean } = {}): object => ({
  sources: {
    people: {
      kind: 'person',
      table: 'crm.people',
      ...(options.changedAt === true ? { changedAt: 't.updated_at' } : {}),
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

/** Creates a table with this many rows, all of them enriched by Fillrate. */
export async function createSettledTable(
  client: pg.Client,
  url: string,
  service: Task['service'],
  rows: number,
): Promise<void> {
  const db = openDatabase({ url, max: 1 })
  await migrate(db)
  await client.query(`
    create schema crm;
    create table crm.people (
      id bigint primary key, email text not null, title text, phone text, seniority text, nickname text,
      updated_at timestamptz not null default now() - interval '30 days'
    );
    create index on crm.people (updated_at)`)
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

  await insertPeople(client, MODEL_ROWS + 1, rows)
  const [mapping] = Object.values(config.sources)
  if (mapping === undefined) throw new Error('the configuration has one source')
  const { hash } = rowInputsSql(await openSource(db, mapping))
  await client.query(
    `update crm.people p set title = m.title, phone = m.phone, seniority = m.seniority from crm.people m
      where m.id = (select key::bigint from fillrate.rows where state = 'enriched' limit 1) and p.id > $1`,
    [MODEL_ROWS],
  )
  const lookups = await copySql(client, 'lookups', {
    id: 't.id',
    key: 'lower(t.email)',
    input: `jsonb_build_object('email', lower(t.email))`,
  })
  const copied = `from crm.people t cross join`
  await client.query(
    `${lookups.insert} overriding system value ${lookups.select} ${copied} (select * from fillrate.lookups where state = 'found' limit 1) m where t.id > ${MODEL_ROWS}`,
  )
  const states = await copySql(client, 'rows', { key: 't.id::text', lookup_id: 't.id', input_hash: hash })
  await client.query(
    `${states.insert} ${states.select} ${copied} (select * from fillrate.rows where state = 'enriched' limit 1) m where t.id > ${MODEL_ROWS}`,
  )
  const changes = await copySql(client, 'changes', { id: null, key: 't.id::text', lookup_id: 't.id' })
  await client.query(
    `${changes.insert} ${changes.select} ${copied} (select * from fillrate.changes order by id limit 1) m where t.id > ${MODEL_ROWS}`,
  )
  await client.query(
    `select setval(pg_get_serial_sequence('fillrate.lookups', 'id'), (select max(id) from fillrate.lookups))`,
  )
  await db.destroy()
  await client.query(
    `create table crm.leads as select id, 'lead' || id || '@example.com' as email, null::text as title from crm.people`,
  )
  await client.query('alter table crm.leads add primary key (id)')
  await client.query('vacuum analyze')
  await client.query('checkpoint')
}

const insertPeople = (client: pg.Client, from: number, to: number): Promise<unknown> =>
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
