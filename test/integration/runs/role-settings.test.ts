import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useHarness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'
import { personSource } from '../../support/crm.ts'

/** Settings of a role or a database that change what statements read, write or mean. */
const SETTINGS = {
  DateStyle: `'SQL, DMY'`,
  IntervalStyle: `'sql_standard'`,
  TimeZone: `'Pacific/Chatham'`,
  extra_float_digits: '0',
  bytea_output: `'escape'`,
  xmlbinary: `'hex'`,
  standard_conforming_strings: 'off',
  backslash_quote: 'off',
  array_nulls: 'off',
  transform_null_equals: 'on',
  quote_all_identifiers: 'on',
  default_transaction_isolation: `'serializable'`,
  default_transaction_deferrable: 'on',
  row_security: 'off',
  lock_timeout: `'3s'`,
  statement_timeout: `'20s'`,
  idle_in_transaction_session_timeout: `'60s'`,
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  plan_cache_mode: `'force_generic_plan'`,
  client_min_messages: `'debug1'`,
  default_text_search_config: `'pg_catalog.german'`,
  lc_numeric: `'C'`,
}

const config = {
  sources: {
    people: personSource('crm.people', {
      title: 'title',
      score: { field: 'title', sql: '$confidence / 3' },
      exact: { field: 'title', sql: '$confidence * 100' },
      span: { field: 'seniority', sql: `interval '1 year 2 days 03:04:05.5'` },
      spans: { field: 'seniority', sql: `array[interval '-1 day', null]` },
      born: { field: 'phone', sql: `date '2001-02-03'`, policy: 'always' },
      seen: { field: 'phone', sql: `timestamptz '2001-02-03 04:05:06.789+00'`, policy: 'always' },
      plain: { field: 'phone', sql: `timestamp '2001-02-03 04:05:06.789'`, policy: 'always' },
      times: { field: 'phone', sql: `array[timestamptz '2001-02-03 04:05:06+00']`, policy: 'always' },
      bytes: { field: 'phone', sql: `decode('005cff', 'hex')`, policy: 'always' },
      'doc.path': { field: 'phone', sql: `'C:' || chr(92) || $value`, policy: 'always' },
    }),
  },
  budget: 'unlimited',
} as const

const harness = useHarness({
  config,
  sandbox: { missingShare: 0 },
  prepare: async ({ pool }) => {
    await pool.query(`
        create schema crm;
        create table crm.people (
          id text primary key, email text, title text, score double precision, exact numeric, span interval, spans interval[],
          born date, seen timestamptz, plain timestamp, times timestamptz[], bytes bytea, doc jsonb);
        insert into crm.people (id, email, born, seen, plain, bytes, span)
        select 'a' || chr(92) || n, 'person' || n || '@example.com', date '2020-03-04' + n, timestamptz '2020-03-04 05:06:07.1+00',
               '2020-03-04 05:06:07.1', '\\x5c00', case when n % 2 = 0 then interval '4 days' end
          from generate_series(1, 40) n`)
  },
})

const set = async (isOdd: boolean): Promise<void> => {
  const rows = await harness.query<{ name: string }>('select current_database() as name')
  const database = rows[0]?.name ?? ''
  for (const [setting, value] of Object.entries(SETTINGS))
    await harness.query(
      isOdd
        ? `alter database "${database}" set ${setting} = ${value}`
        : `alter database "${database}" reset ${setting}`,
    )
}

test('a role may be set as it likes: a run writes the same cells, an undo restores them, whatever was set when', async () => {
  const table = (): Promise<string> => harness.checksum('crm.people')
  const undo = async (run: number): Promise<number> => {
    const undone = await harness.undo(run)
    expect(undone).toMatchObject({ kept: [], failed: [], changes: { restored: undone.changes.total } })
    return undone.run ?? 0
  }
  const before = await table()
  const plain = await harness.run()
  expect(plain.rows).toMatchObject({ picked: 40, write_rejected: 0, failed: 0 })
  const written = await table()
  expect(written).not.toBe(before)

  await set(true)
  const second = await harness.run()
  expect(second.rows).toMatchObject({ picked: 0 })
  const redo = await undo(plain.run)
  expect(await table()).toBe(before)
  const again = await undo(redo)
  expect(await table()).toBe(written)
  await harness.query('truncate fillrate.rows, fillrate.lookups, fillrate.changes cascade')
  await harness.query(
    'update crm.people set title = null, score = null, exact = null, spans = null, times = null, doc = null',
  )
  const base = await table()
  const odd = await harness.run()
  expect(odd.rows).toMatchObject({ picked: 40, write_rejected: 0, failed: 0 })
  const oddly = await table()
  expect(again).toBeGreaterThan(0)

  await set(false)
  const third = await harness.run()
  expect(third.rows).toMatchObject({ picked: 0 })
  await undo(odd.run)
  expect(await table()).toBe(base)
  expect(oddly).not.toBe(base)
})

/** Of a program that works as this role. */
const environmentOf = (role: string) => ({
  DATABASE_URL: Object.assign(new URL(harness.database.url), { username: role, password: 'x' }).href,
  FILLRATE_BASE_URL: harness.sandbox.url,
  FILLRATE_API_KEY: harness.environment.apiKey ?? '',
})

test('an error that a setting of the role has raised names it', async () => {
  // Each answer of this table takes its time.
  await harness.query(`
    create function crm.slow() returns boolean language plpgsql volatile as $$ begin perform pg_sleep(0.05); return true; end $$;
    create policy slow on fillrate.runs using (crm.slow());
    create role slow_${process.pid} login password 'x';
    grant usage on schema fillrate, crm to slow_${process.pid};
    grant select, insert, update, delete on all tables in schema fillrate to slow_${process.pid};
    grant select, update on crm.people to slow_${process.pid};
    alter table fillrate.runs enable row level security;
    alter role slow_${process.pid} set statement_timeout = '5ms';
    update crm.people set title = null; truncate fillrate.rows, fillrate.lookups, fillrate.changes cascade`)
  const env = environmentOf(`slow_${process.pid}`)
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-role-'))
  try {
    await writeFile(join(folder, 'fillrate.config.json'), JSON.stringify(config))
    const { code, stderr } = await runProgram({ cwd: folder, env }, 'run', '--route', 'sync')
    expect(code).toBe(1)
    const text = stderr.replaceAll(/\s+/g, ' ')
    expect(text).toContain('found canceling statement due to statement timeout')
    expect(text).toContain('1 problem in the database: statement_timeout')
  } finally {
    await rm(folder, { recursive: true })
    await harness.query(`
      drop policy slow on fillrate.runs; drop function crm.slow; alter table fillrate.runs disable row level security;
      drop owned by slow_${process.pid}; drop role slow_${process.pid}`)
  }
})

test('a role that may not write is told so at once', async () => {
  await harness.query(`
    create role reader_${process.pid} superuser login password 'x';
    alter role reader_${process.pid} set default_transaction_read_only = on`)
  const env = environmentOf(`reader_${process.pid}`)
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-role-'))
  try {
    await writeFile(join(folder, 'fillrate.config.json'), JSON.stringify({ ...config, schedule: [] }))
    for (const [command = '', code] of [
      ['check', 2],
      ['run', 1],
      ['undo 1 --yes', 1],
    ] as const) {
      const ended = await runProgram({ cwd: folder, env }, ...command.split(' '))
      expect({ command, code: ended.code }).toEqual({ command, code })
      const text = `${ended.stdout}${ended.stderr}`.replaceAll(/\s+/g, ' ')
      expect(text).toMatch(/read-only[^]*default_transaction_read_only/)
    }
  } finally {
    await rm(folder, { recursive: true })
    await harness.query(`drop role reader_${process.pid}`)
  }
})
