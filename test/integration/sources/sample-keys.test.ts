import { expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/load.ts'
import { estimateRows, sampleKeys } from '../../../src/sources/sample-keys.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { runRequest, useHarness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

const ROWS = 150
/** Tables by the type of their key: `create table`, and the key of row n. */
const TABLES = {
  number: ['id bigint primary key', 'n'],
  uuid: ['id uuid primary key', `md5(n::text)::uuid`],
  text: ['id text primary key', `chr(64 + n % 50) || '"' || n`],
  time: ['id timestamptz primary key', `timestamptz '2024-01-01' + n * interval '1 hour'`],
  composite: ['tenant text, id int, primary key (tenant, id)', `'t' || n % 7, n`],
  nullable: ['id int unique', 'nullif(n, 5)'],
} as const
const PARTITIONED = `create table partitioned (id int primary key, email text, title text) partition by range (id);
  create table partitioned_1 partition of partitioned for values from (0) to (50);
  create table partitioned_2 partition of partitioned for values from (50) to (1000);
  insert into partitioned (id, email) select n, 'p' || n || '@example.com' from generate_series(1, ${ROWS}) n;`

const names = [...Object.keys(TABLES), 'partitioned']
const keyOf = (name: string): { key?: string[] } => (name === 'nullable' ? { key: ['id'] } : {})
const config = {
  sources: Object.fromEntries(
    names.map((name) => [name, personSource(name, { title: 'title' }, { ...keyOf(name) })]),
  ),
  budget: 'unlimited',
}

const harness = useHarness({
  config,
  prepare: async ({ pool }) => {
    for (const [name, [columns, key]] of Object.entries(TABLES))
      await pool.query(`create table ${name} (${columns}, email text, title text);
          insert into ${name} select ${key}, 'p' || n || '@example.com' from generate_series(1, ${ROWS}) n;`)
    await pool.query(PARTITIONED)
  },
})

const sourceOf = async (name: string): Promise<Source> => {
  const mapping = parseConfig(config, null).sources[name]
  if (mapping === undefined) throw new Error(`no source ${name}`)
  return openSource(harness.database.db, mapping)
}

test.each(names)('keys are sampled in key order, without repetition (%s)', async (name) => {
  const { db } = harness.database
  const source = await sourceOf(name)
  const keys = await sampleKeys(db, source, 40, () => 0.3)
  expect(keys).toHaveLength(40)
  expect(new Set(keys).size).toBe(40)
  expect(await sampleKeys(db, source, 40, () => 0.3)).toEqual(keys)
  expect(await sampleKeys(db, source, 40, () => 0.6)).not.toEqual(keys)
  await harness.query(`analyze ${name}`)
  expect(await estimateRows(db, source)).toBe(ROWS)
})

test.each(names)('a dry run from random places reads every row once (%s)', async (name) => {
  const rows = name === 'nullable' ? ROWS - 1 : ROWS
  const report = await harness.run({
    sources: [name],
    route: 'sync',
    budget: 10_000,
    limit: 1_000,
    dryRun: { sample: 2 },
  })
  expect(report).toMatchObject({ status: 'completed', reason: null, rows: { picked: rows, waiting: 0 } })
  const app = await harness.open()
  expect(await app.plan(runRequest({ sources: [name] }))).toMatchObject({ lookups: { requested: 0 } })
})
