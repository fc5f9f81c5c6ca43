import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createFillrate } from '../../../src/fillrate.ts'
import { migrate, pendingMigrations } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createCommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useTestDatabase } from '../../support/database.ts'
import { runProgram } from '../../support/program.ts'

const ALL = readdirSync(new URL('../../../migrations/', import.meta.url))
  .map((file) => file.replace(/\.ts$/, ''))
  .toSorted()

const database = useTestDatabase()

test('migrating twice does nothing the second time', async () => {
  expect(await migrate(database.db)).toEqual([])
  expect(await pendingMigrations(database.db)).toEqual([])
})

test('bodies of deliveries are compressed with lz4 where Postgres has it', async () => {
  const rows = await database.query<{ used: string; has_lz4: boolean }>(`
    select attcompression as used, (select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression') as has_lz4
      from pg_attribute where attrelid = 'fillrate.deliveries'::regclass and attname = 'body'`)
  expect(rows[0]?.used).toBe(rows[0]?.has_lz4 === true ? 'l' : '')
})

test('no index depends on a collation that an upgrade of the operating system can change', async () => {
  const rows = await database.query<{ column: string }>(`
    select distinct format('%s.%s', c.relname, a.attname) as column
      from pg_index i
      join pg_class c on c.oid = i.indrelid and c.relnamespace = 'fillrate'::regnamespace and c.relname not like 'migration%'
      join pg_attribute x on x.attrelid = i.indexrelid
      join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[x.attnum - 1]
     where x.attcollation not in (0, 'pg_catalog."C"'::regcollation)
     order by 1`)
  expect(rows.map(({ column }) => column)).toEqual([])
})

test('the command corrects counts of rows that a restore has doubled', async () => {
  const cwd = await mkdtemp(join(tmpdir(), 'fillrate-'))
  const migrateNow = () => runProgram({ cwd, env: { DATABASE_URL: database.url } }, 'migrate')
  await database.query(`insert into fillrate.row_counts (source, state, rows) values ('a', 'waiting', 5)`)
  expect(await migrateNow()).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Corrected 1 count of rows/),
  })
  expect(await migrateNow()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing to do/) })
  await rm(cwd, { recursive: true })
})

test('several processes that migrate at once create one schema', async () => {
  await database.query('drop schema fillrate cascade')
  const others = Array.from({ length: 4 }, () => openDatabase({ url: database.url, max: 1 }))
  try {
    const applied = await Promise.all(others.map((db) => migrate(db)))
    expect(applied.flat()).toEqual(ALL)
    expect(await pendingMigrations(database.db)).toEqual([])
  } finally {
    await Promise.all(others.map((db) => db.destroy()))
  }
})

test('a process that waits while another one creates the schema finds it', async () => {
  await database.query('drop schema fillrate cascade')
  const other = openDatabase({ url: database.url, max: 1 })
  const waiting: Promise<string[]>[] = []
  // So small that Postgres does not call on other sessions to forget what they remember of the catalog.
  const create = (tx: Kysely<unknown>) => sql`create table fillrate.small (id int)`.execute(tx).then(() => {})
  const createSlowly = async (tx: Kysely<unknown>): Promise<void> => {
    waiting.push(migrate(other, { migrations: async () => ({ '9001_small': { up: create } }) }))
    await database.untilBlocked()
    await create(tx)
  }
  try {
    const migrations = async () => ({ '9001_small': { up: createSlowly } })
    expect(await migrate(database.db, { migrations })).toEqual(['9001_small'])
    expect(await Promise.all(waiting)).toEqual([[]])
  } finally {
    await other.destroy()
    await database.query('drop schema fillrate cascade')
    await migrate(database.db)
  }
})

test('migrating neither waits for a lock on a user table nor takes one', async () => {
  await database.query('drop schema fillrate cascade; create table contacts (id int primary key)')
  const other = await database.pool.connect()
  try {
    await other.query('begin; lock table contacts in access exclusive mode')
    expect(await migrate(database.db)).toEqual(ALL)
  } finally {
    await other.query('rollback')
    other.release()
  }
})

describe('with a newer schema', () => {
  const NEWER = ['0000_of_a_branch', '9999_of_a_newer_version']
  beforeAll(() =>
    database.query(
      `insert into fillrate.migrations (name, timestamp) select name, now()::text from unnest($1::text[]) name`,
      [NEWER],
    ),
  )
  afterAll(() => database.query('delete from fillrate.migrations where name = any($1)', [NEWER]))

  test('an older version finds nothing to migrate and nothing missing', async () => {
    expect(await migrate(database.db)).toEqual([])
    expect(await pendingMigrations(database.db)).toEqual([])
  })

  test('its own missing migrations are applied', async () => {
    const migrations = async () => ({
      ...Object.fromEntries(ALL.map((name) => [name, { up: async () => {} }])),
      '9998_lacking': { up: async () => {} },
    })
    expect(await migrate(database.db, { migrations })).toEqual(['9998_lacking'])
    await database.query(`delete from fillrate.migrations where name = '9998_lacking'`)
  })

  test('a program that migrates on start opens', async () => {
    await createCrm(database.pool, 1)
    const fillrate = await createFillrate({
      config: crmConfig,
      env: { DATABASE_URL: database.url },
      migrate: true,
    })
    expect((await fillrate.plan()).sources).toMatchObject([{ source: 'contacts', rows: 1 }])
    await fillrate.close()
  })
})

describe('a migration that takes away what older versions use', () => {
  const CONTRACT = '9997_from_999_1_without_scope'
  const migrations = async () => ({
    ...Object.fromEntries(ALL.map((name) => [name, { up: async () => {} }])),
    [CONTRACT]: { up: async () => {} },
  })
  afterEach(() => database.query('delete from fillrate.migrations where name = $1', [CONTRACT]))

  test('waits until no process of an older version runs', async () => {
    await database.query(`
      insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at, seen_at)
      values ('a', 'start', 'worker-1', 41, '999.0.7', '24', '{}', now(), now()),
             ('b', 'run', 'worker-2', 42, '999.1.0', '24', '{}', now(), now()),
             ('c', 'run', 'worker-3', 43, '1.0.0', '24', '{}', now(), now() - interval '1 minute')`)
    await expect(migrate(database.db, { migrations })).rejects.toThrow(
      /takes away what versions before 999\.1 use, and version 999\.0\.7 \(start, process 41 on worker-1\) still run\. Nothing was changed\./,
    )
    expect(await database.count(`fillrate.migrations where name = '${CONTRACT}'`)).toBe(0)
    await database.query(`delete from fillrate.processes where owner = 'a'`)
    expect(await migrate(database.db, { migrations })).toEqual([CONTRACT])
    expect(await migrate(database.db, { migrations })).toEqual([])
    await database.query('delete from fillrate.processes')
  })

  test('waits for commands of older versions, which are in no list of processes, as long as their runs live', async () => {
    await database.query(`
      insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
      values ('listed', 'run', 'worker-1', 41, '999.1.0', '24', '{}', now());
      insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at, version)
      values ('manual', '{a}', 'running', 'undo-of-old', gen_random_uuid(), now() + interval '1 minute', null, '999.0.7'),
             ('manual', '{a}', 'running', 'remap-of-older', gen_random_uuid(), now() + interval '1 minute', null, null),
             ('manual', '{a}', 'running', 'undo-of-new', gen_random_uuid(), now() + interval '1 minute', null, '999.1.3'),
             ('manual', '{a}', 'running', 'listed', gen_random_uuid(), now() + interval '1 minute', null, '999.1.0'),
             ('manual', '{a}', 'running', 'dead', gen_random_uuid(), now() - interval '1 minute', null, '999.0.7'),
             ('manual', '{a}', 'completed', 'done', gen_random_uuid(), now() + interval '1 minute', now(), '999.0.7')`)
    const [first = 0] = (
      await database.query<{ id: number }>('select min(id)::int as id from fillrate.runs')
    ).map(({ id }) => id)
    await expect(migrate(database.db, { migrations })).rejects.toThrow(
      `takes away what versions before 999.1 use, and version 999.0.7 (run ${first}); an older version (run ${first + 1}) still run. Nothing was changed.`,
    )
    await database.query(`delete from fillrate.runs where owner in ('undo-of-old', 'remap-of-older')`)
    expect(await migrate(database.db, { migrations })).toEqual([CONTRACT])
    await database.query('delete from fillrate.runs; delete from fillrate.processes')
  })

  test('is refused by an older version in one line, with exit code 2, by every command', async () => {
    await database.query('insert into fillrate.migrations (name, timestamp) values ($1, now()::text)', [
      CONTRACT,
    ])
    const service = { url: 'http://127.0.0.1:9', keys: ['a-key'], webhookSecret: 'a-secret' }
    const cli = await createCommandLine(database.url, service, {
      sources: {
        a: { kind: 'person', table: 'a', inputs: { email: 't.email' }, outputs: { title: 'title' } },
      },
      budget: 1,
    })
    try {
      const line = expect.stringMatching(
        /^fillrate: the schema "fillrate" was upgraded by a newer version \(9997_from_999_1_without_scope\), and works with version 999\.1 and later; this is \S+\. Nothing was changed\. Start version 999\.1 or later, or restore a backup of the schema from before that upgrade\.\n$/,
      )
      const ended = await Promise.all(
        ['migrate', 'status', 'runs', 'plan', 'run', 'start', 'serve'].map(async (command) => {
          const { code, stderr } = await cli.runWith({ LOG_LEVEL: 'warn' }, command)
          return { command, code, stderr }
        }),
      )
      expect(ended).toEqual(ended.map(({ command }) => ({ command, code: 2, stderr: line })))
      expect(await cli.run('check')).toMatchObject({
        code: 2,
        stdout: expect.stringContaining('upgraded by a newer version (9997_from_999_1_without_scope)'),
      })
    } finally {
      await cli.remove()
    }
  })
})

describe('a migration that must lock a table in use', () => {
  const migrations = async () => ({
    ...Object.fromEntries(ALL.map((name) => [name, { up: async () => {} }])),
    '9998_locks': {
      up: async (tx: Kysely<unknown>) => {
        await sql`alter table fillrate.lookups add column if not exists probe integer`.execute(tx)
      },
    },
  })
  let holder: pg.Client
  beforeEach(async () => {
    holder = new pg.Client({ connectionString: database.url, application_name: 'pg_dump' })
    await holder.connect()
    await holder.query('begin; lock table fillrate.lookups in access share mode')
  })
  afterEach(() => holder.end())

  test('names the blockers, lets others through meanwhile, and continues when they finish', async () => {
    const reported = Promise.withResolvers<readonly string[]>()
    const migrated = migrate(database.db, { migrations, onBlocked: reported.resolve })
    const [blocker, ...more] = await reported.promise
    expect(more).toEqual([])
    expect(blocker).toMatch(
      /^process \d+ of Postgres \(pg_dump, role .+, in a transaction for \d+ s: lookups\)$/,
    )
    expect((await database.pool.query('select count(*) from fillrate.lookups')).rowCount).toBe(1)
    await holder.query('rollback')
    expect(await migrated).toEqual(['9998_locks'])
    await database.query(`
      alter table fillrate.lookups drop column probe;
      delete from fillrate.migrations where name = '9998_locks'`)
  })

  test('gives up in the end with a remedy, and changes nothing', async () => {
    await expect(migrate(database.db, { migrations, patienceMs: 0 })).rejects.toThrow(
      /held by process \d+ of Postgres \(pg_dump.*Nothing was changed\..*run `fillrate migrate` again/,
    )
    const { rowCount } = await database.pool.query(
      `select from fillrate.migrations where name = '9998_locks'`,
    )
    expect(rowCount).toBe(0)
  })
})

test('a role that cannot create a schema migrates an existing one', async () => {
  const role = `migrates_${randomUUID().slice(0, 8)}`
  await database.query(`drop schema fillrate cascade; create role ${role} login password 'x'`)
  await database.query(`create schema fillrate authorization ${role}`)
  const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
  const db = openDatabase({ url: url.href, max: 1 })
  try {
    expect(await migrate(db)).toEqual(ALL)
  } finally {
    await db.destroy()
    await database.query(`drop owned by ${role} cascade; drop role ${role}`)
    await migrate(database.db)
  }
})

test('a role that does not own the schema is told who does, and changes nothing', async () => {
  const role = `works_${randomUUID().slice(0, 8)}`
  const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
  const migrations = async () => ({
    ...Object.fromEntries(ALL.map((name) => [name, { up: async () => {} }])),
    '9999_adds': {
      up: async (tx: Kysely<unknown>) => {
        await sql`alter table fillrate.runs add column probe integer`.execute(tx)
      },
    },
  })
  await database.query(`
    create role ${role} login password 'x';
    grant usage on schema fillrate to ${role};
    grant select, insert, update, delete on all tables in schema fillrate to ${role}`)
  const owner = await database.scalar<string>('current_user')
  const db = openDatabase({ url: url.href, max: 1 })
  try {
    await expect(migrate(db, { migrations })).rejects.toThrow(
      `the role ${role} may not upgrade the schema "fillrate", which belongs to ${owner} (must be owner of table runs). Nothing was changed. Run \`fillrate migrate\` as ${owner}`,
    )
    expect(await pendingMigrations(db)).toEqual([])
  } finally {
    await db.destroy()
    await database.query(`drop owned by ${role} cascade; drop role ${role}`)
  }
})

test.each([
  ['usage', 'CREATE'],
  ['create', 'USAGE'],
  [null, 'USAGE, CREATE'],
])(
  'a role with %s on an empty schema of another one is told what it lacks, and whose it is',
  async (has, lacks) => {
    const role = `Works ${randomUUID().slice(0, 8)}`
    const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
    await database.query(`
    drop schema fillrate cascade; create schema fillrate; create role "${role}" login password 'x';
    ${has === null ? '' : `grant ${has} on schema fillrate to "${role}"`}`)
    const owner = await database.scalar<string>('current_user')
    const db = openDatabase({ url: url.href, max: 1 })
    try {
      await expect(migrate(db)).rejects.toThrow(
        `the role ${role} lacks ${lacks} on the schema "fillrate", which belongs to ${owner}. Nothing was changed. Run as ${owner}: GRANT ${lacks} ON SCHEMA fillrate TO "${role}"; then run \`fillrate migrate\` again`,
      )
      await database.query(`grant usage, create on schema fillrate to "${role}"`)
      expect(await migrate(db)).toEqual(ALL)
    } finally {
      await db.destroy()
      await database.query(`drop owned by "${role}" cascade; drop role "${role}"`)
      await migrate(database.db)
    }
  },
)

test('an owner of the tables that may create none is told so, and who may', async () => {
  const role = `works_${randomUUID().slice(0, 8)}`
  const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
  const migrations = async () => ({
    ...Object.fromEntries(ALL.map((name) => [name, { up: async () => {} }])),
    '9999_adds': {
      up: async (tx: Kysely<unknown>) => void (await sql`create table fillrate.probe ()`.execute(tx)),
    },
  })
  const owner = await database.scalar<string>('current_user')
  await database.query(`
    create role ${role} login password 'x';
    grant usage on schema fillrate to ${role};
    grant select on fillrate.migrations to ${role};
    alter table fillrate.runs owner to ${role}`)
  const db = openDatabase({ url: url.href, max: 1 })
  try {
    await expect(migrate(db, { migrations })).rejects.toThrow(
      `the role ${role} lacks CREATE on the schema "fillrate", which belongs to ${owner}. Nothing was changed`,
    )
  } finally {
    await db.destroy()
    await database.query(`
      alter table fillrate.runs owner to current_user; drop owned by ${role} cascade; drop role ${role}`)
  }
})

test('an earlier schema of the same name is left alone, and no process starts on it', async () => {
  // As a version made it whose first migration had other statements: the name is the same, a column is missing.
  const earlier = `comment on table fillrate.migrations is 'another'; alter table fillrate.rows drop may_be_hidden`
  const cwd = await mkdtemp(join(tmpdir(), 'fillrate-earlier-'))
  try {
    await database.query(earlier)
    const message =
      /before the first release, and cannot be upgraded\. Nothing was changed\..*drop schema fillrate cascade/s
    await expect(migrate(database.db)).rejects.toThrow(message)
    const source = { kind: 'person', table: 'a', inputs: { email: 't.email' }, outputs: { title: 'title' } }
    await writeFile(join(cwd, 'fillrate.config.json'), JSON.stringify({ sources: { a: source }, budget: 1 }))
    const env = {
      DATABASE_URL: database.url,
      FILLRATE_BASE_URL: 'http://127.0.0.1:9',
      FILLRATE_API_KEY: 'a-key',
    }
    for (const words of [['migrate'], ['status'], ['plan'], ['run'], ['start', '--port', '0']]) {
      const { code, stderr } = await runProgram({ cwd, env }, ...words)
      expect({ words, code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(message) })
    }
  } finally {
    await rm(cwd, { recursive: true })
    await database.query('drop schema fillrate cascade')
    await migrate(database.db)
  }
})

test.each([
  ['lookups', `insert into fillrate.lookups (kind, key, input, state) values ('email', 'a', '{}', 'done')`],
  [
    'a lease without a token',
    `insert into fillrate.lookups (kind, key, input, state) values ('email', 'b', '{}', 'leased')`,
  ],
  [
    'found without a record',
    `insert into fillrate.lookups (kind, key, input, state, resolved_at) values ('email', 'c', '{}', 'found', now())`,
  ],
  [
    'a settled row that waits',
    `insert into fillrate.rows (source, key, state, settled_at) values ('s', 'k', 'waiting', now())`,
  ],
  [
    'a job of 1,001',
    `insert into fillrate.jobs (key, state, size, lookup_ids, deadline_at) values (gen_random_uuid(), 'submitting', 1001, array_fill(1::bigint, array[1001]), now())`,
  ],
])('an impossible state is refused: %s', async (_, statement) => {
  await expect(database.pool.query(statement)).rejects.toMatchObject({ code: '23514' })
})
