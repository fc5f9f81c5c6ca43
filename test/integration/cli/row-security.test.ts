import { afterAll, beforeEach, expect, inject, test } from 'vitest'
import { parseConfig } from '../../../src/config/load.ts'
import { rejectProtectedRows } from '../../../src/sources/row-security.ts'
import { openSource } from '../../../src/sources/source.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { hasPgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import type { Ended } from '../../support/cli.ts'
import { printDraft } from '../../support/init-folder.ts'
import { onServer } from '../../support/server.ts'
import { openCommandLine } from './command-line.ts'
import { personSource } from '../../support/crm.ts'

const ROLE = 'fillrate_row_security'
const REASON = `row-level security: its policies let the role ${ROLE} read the row, and not update it`
/** SELECT on single columns, too. */
const GRANTS = `grant select (id, tenant, email, title, phone), update (title, phone) on people to ${ROLE}`
const config = (): object => ({
  sources: {
    people: personSource(
      'people',
      { title: 'title', phone: 'phone' },
      { joins: 'join tenants on tenants.id = t.tenant', where: 'tenants.is_active' },
    ),
  },
  budget: 'unlimited',
})

await onServer(inject('postgresUrl'), (client) => client.query(`drop role if exists ${ROLE}`).catch(() => {}))
const { database, sandbox, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create role ${ROLE} login password 'secured';
      create table people (id int primary key, tenant int not null, email text, title text, phone text, secret text);
      create table tenants (id int primary key, is_active boolean not null);
      insert into tenants values (1, true), (2, true);
      grant usage on schema fillrate to ${ROLE};
      grant select, insert, update, delete on all tables in schema fillrate to ${ROLE};
      ${GRANTS};
      grant select on tenants to ${ROLE}`),
  service: { notFoundShare: 0, missingShare: 0 },
  config: config(),
})
const url = Object.assign(new URL(database.url), { username: ROLE, password: 'secured' }).href
afterAll(() => database.query(`drop owned by ${ROLE} cascade; drop role ${ROLE}`))

/** New rows, of which Fillrate knows nothing, without a policy. */
beforeEach(async () => {
  const rows = await database.query<{ name: string; on: string }>(
    `select quote_ident(polname) as name, polrelid::regclass as "on" from pg_policy`,
  )
  for (const { name, on } of rows) await database.query(`drop policy ${name} on ${on}`)
  await database.query(`
    truncate people, fillrate.rows, fillrate.changes, fillrate.lookups, fillrate.answered_lookups,
             fillrate.skipped_cells, fillrate.row_counts, fillrate.conditions;
    alter table people enable row level security;
    alter table tenants disable row level security;
    insert into people (id, tenant, email) select n, 1 + n % 2, 'p' || n || '@example.com' from generate_series(1, 12) n`)
})

/** Ends a command; its output without line breaks. */
async function fillrateOn(databaseUrl: string, ...args: string[]): Promise<Ended> {
  const { code, stdout, stderr } = await here(args, {
    DATABASE_URL: databaseUrl,
    FILLRATE_WEBHOOK_SECRET: undefined,
    LOG_LEVEL: 'silent',
  })
  return { code, stdout: stdout.replaceAll(/\s+/g, ' '), stderr: stderr.replaceAll(/\s+/g, ' ') }
}

const fillrate = (...args: string[]): Promise<Ended> => fillrateOn(url, ...args)

const run = (): Promise<Ended> => fillrate('run', '--route', 'sync', '--json')

const states = (): Promise<unknown> =>
  database.query(
    `select state, reason, array_agg(key::int order by key::int) as keys from fillrate.rows group by 1, 2 order by 1`,
  )

const calls = (): number => sandbox.stats().calls.accepted

test.each([
  ['no policy at all', '', ['SELECT', 'UPDATE'], 'true'],
  [
    'a policy for SELECT only',
    `create policy s on people for select to ${ROLE} using (tenant = 1)`,
    ['UPDATE'],
    '(tenant = 1)',
  ],
  ['policies without a condition', `create policy a on people to ${ROLE}`, ['SELECT', 'UPDATE'], 'true'],
  [
    'policies of another role',
    'create policy a on people to pg_monitor using (true)',
    ['SELECT', 'UPDATE'],
    'true',
  ],
  [
    'only a restrictive one for UPDATE',
    `create policy s on people for select using (true);
     create policy r on people as restrictive for update using (true)`,
    ['UPDATE'],
    'true',
  ],
])('%s: nothing is called, and the statements are printed', async (_, policies, commands, using) => {
  await database.query(policies)
  const before = calls()
  const statements = commands.map(
    (command) =>
      `CREATE POLICY ${ROLE}_${command.toLowerCase()} ON public.people FOR ${command} TO ${ROLE} USING (${using});`,
  )
  const others = commands.length === 1 ? [['plan'], ['remap', 'people']] : []
  for (const command of [['check'], ['run', '--route', 'sync'], ...others]) {
    const { code, stdout, stderr } = await fillrate(...command)
    for (const statement of statements) expect(stdout + stderr).toContain(statement)
    expect(stdout + stderr).not.toContain('Ready to run')
    expect(code).toBe(2)
  }
  expect(calls()).toBe(before)
  const proposal = await printDraft(url, 'people')
  for (const statement of statements) expect(proposal.stdout).toContain(statement)
  // What is printed is enough.
  await database.query(statements.join('\n'))
  expect((await fillrate('check')).stdout).toContain('Ready to run')
})

test('init asks for no policy in place of one that was made for the role and shows no row', async () => {
  await database.query(`create policy ${ROLE}_select on people for select to ${ROLE} using (id > 100)`)
  const { code, stdout } = await printDraft(url, 'people')
  expect(code).toBe(1)
  expect(stdout).toContain('people: row-level security shows this role no row of it')
  expect(stdout).not.toContain('CREATE POLICY')
})

test('a joined table of which no row may be read is reported, with its policy', async () => {
  await database.query(
    `create policy p on people to ${ROLE} using (true); alter table tenants enable row level security`,
  )
  const { code, stdout } = await fillrate('check')
  expect(code).toBe(2)
  expect(stdout).toContain(
    `CREATE POLICY ${ROLE}_select ON public.tenants FOR SELECT TO ${ROLE} USING (true);`,
  )
  expect(stdout).not.toContain('FOR UPDATE')
})

test('what a policy for every role uses is named with its grants', async () => {
  await database.query(`
    create table members (tenant int, name text, secret text);
    create function see(int) returns boolean language sql stable as 'select $1 = 1';
    revoke execute on function see from public;
    create policy "members see people" on people using (see(tenant) and tenant in (select tenant from members where name = 'x'));
    alter table members enable row level security;
    create policy m on members using (tenant in (select id from tenants));
    revoke select on tenants from ${ROLE}; grant select (is_active) on tenants to ${ROLE}`)
  try {
    const statements = [
      `GRANT SELECT (name, tenant) ON public.members TO ${ROLE};`,
      `GRANT SELECT (id) ON public.tenants TO ${ROLE};`,
      `GRANT EXECUTE ON FUNCTION public.see(integer) TO ${ROLE};`,
    ]
    for (const command of [['check'], ['run', '--route', 'sync']]) {
      const { code, stdout, stderr } = await fillrate(...command)
      for (const statement of statements) expect(stdout + stderr).toContain(statement)
      expect(code).toBe(2)
    }
    await database.query(statements.join('\n'))
    // Every row is of another role's users.
    expect((await fillrate('plan')).stdout).toContain('no row that the role may read: see `fillrate check`')
    expect((await fillrate('check')).stdout).toContain(
      'Create policies for the role, for SELECT and for UPDATE',
    )
  } finally {
    await database.query(`drop policy "members see people" on people; drop function see; drop table members;
      grant select on tenants to ${ROLE}`)
  }
})

test('rows that a restrictive policy hides are named', async () => {
  await database.query(`create policy p on people to ${ROLE} using (true);
    create policy r on people as restrictive for select to ${ROLE} using (id > 100)`)
  const { stdout } = await fillrate('check')
  expect(stdout).toContain('row-level security may hide them')
})

test('row_security = off is reported, because Postgres refuses each statement', async () => {
  await database.query(
    `create policy p on people to ${ROLE} using (true); alter role ${ROLE} set row_security = off`,
  )
  try {
    const { code, stdout } = await fillrate('check')
    expect(code).toBe(2)
    expect(stdout).toContain('query would be affected by row-level security policy')
  } finally {
    await database.query(`alter role ${ROLE} reset row_security`)
  }
})

test('rows that may be read and not updated are rejected once, and written after the policy', async () => {
  await database.query(`
    create policy s on people for select to ${ROLE} using (true);
    create policy u on people for update to ${ROLE} using (true);
    create policy r on people as restrictive for update to ${ROLE} using (tenant = 1)`)
  expect((await run()).code).toBe(3)
  const rejected = { state: 'write_rejected', reason: REASON, keys: [1, 3, 5, 7, 9, 11] }
  expect(await states()).toEqual([{ state: 'enriched', reason: null, keys: [2, 4, 6, 8, 10, 12] }, rejected])
  const called = calls()
  for (const again of [
    ['run', '--route', 'sync'],
    ['remap', 'people'],
  ]) {
    expect((await fillrate(...again)).stderr).not.toContain('locked')
    expect(await states()).toContainEqual(rejected)
  }
  expect(calls()).toBe(called)

  // The rows that were written are protected now, and those of the other tenant are not.
  await database.query(
    `drop policy r on people; create policy r on people as restrictive for update to ${ROLE} using (tenant = 2)`,
  )
  const undone = JSON.parse((await fillrate('undo', '1', '--json', '--yes')).stdout) as Record<
    string,
    unknown
  >
  expect(undone).toMatchObject({ status: 'completed', changes: { restored: 0, rejected: 6 } })
  expect((await fillrate('retry')).code).toBe(0)
  await run()
  expect(await states()).toEqual([
    { state: 'enriched', reason: null, keys: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] },
  ])
  expect(calls()).toBe(called)
})

test('row-level security on a table of Fillrate itself is reported', async () => {
  await database.query(
    `create policy p on people to ${ROLE} using (true); alter table fillrate.rows enable row level security`,
  )
  try {
    const { code, stdout } = await fillrate('check')
    expect(code).toBe(2)
    expect(stdout).toContain('alter table fillrate.rows disable row level security')
  } finally {
    await database.query('alter table fillrate.rows disable row level security')
  }
})

test('an owner needs policies where they are forced, and a role that bypasses them needs none', async () => {
  const isReady = async (): Promise<boolean> => (await fillrate('check')).stdout.includes('Ready to run')
  try {
    await database.query(`alter table people owner to ${ROLE}`)
    expect(await isReady()).toBe(true)
    await database.query('alter table people force row level security')
    expect(await isReady()).toBe(false)
    await database.query(`alter role ${ROLE} bypassrls`)
    expect(await isReady()).toBe(true)
  } finally {
    await database.query(`alter role ${ROLE} nobypassrls; alter table people no force row level security;
                      alter table people owner to current_user; ${GRANTS}`)
  }
})

test.skipIf(!hasPgBouncer())('behind PgBouncer in transaction mode, the policies hold as well', async () => {
  await database.query(`
    create policy s on people for select to ${ROLE} using (id <= 10);
    create policy u on people for update to ${ROLE} using (tenant = 1)`)
  const pooler = await startPgBouncer(new URL(url))
  try {
    const pooled = new URL(url)
    pooled.port = String(pooler.port)
    expect((await fillrateOn(pooled.href, 'run', '--route', 'sync')).code).toBe(3)
  } finally {
    await pooler.stop()
  }
  expect(await states()).toEqual([
    { state: 'enriched', reason: null, keys: [2, 4, 6, 8, 10] },
    { state: 'write_rejected', reason: REASON, keys: [1, 3, 5, 7, 9] },
  ])
})

test('a row that another transaction has locked is none that a policy protects', async () => {
  await database.query(`
    create policy s on people for select to ${ROLE} using (true);
    create policy u on people for update to ${ROLE} using (tenant = 1)`)
  const { people } = parseConfig(config(), null).sources
  if (people === undefined) throw new Error('no source')
  const db = openDatabase({ url, max: 2 })
  const holder = await database.pool.connect()
  try {
    const source = await openSource(db, people)
    await holder.query('begin; select from people where id in (1, 2) for update')
    const report = (key: string) => ({ key, outcome: 'locked', reason: null })
    const results = await inTransaction(db, (tx) =>
      rejectProtectedRows(tx, source, ['1', '2', '3', '4', '99'].map(report)),
    )
    // 1 is protected and locked, 4 is free by now, 99 does not exist.
    expect(results.map(({ key, outcome }) => `${key} ${outcome}`)).toEqual([
      '1 rejected',
      '2 locked',
      '3 rejected',
      '4 locked',
      '99 locked',
    ])
  } finally {
    await holder.query('rollback')
    holder.release()
    await db.destroy()
  }
})

test('a row whose new values fail WITH CHECK is rejected, and the others are written', async () => {
  await database.query(`
    create policy s on people for select to ${ROLE} using (true);
    create policy u on people for update to ${ROLE} using (true) with check (id <> 4)`)
  expect((await run()).code).toBe(3)
  expect(await states()).toEqual([
    expect.objectContaining({ state: 'enriched', keys: [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12] }),
    {
      state: 'write_rejected',
      reason: expect.stringContaining('new row violates row-level security policy'),
      keys: [4],
    },
  ])
})

test('rows that a policy begins to hide are not erased as deleted', async () => {
  await database.query(`create policy p on people to ${ROLE} using (true)`)
  await run()
  await database.query(`drop policy p on people; create policy p on people to ${ROLE} using (id <> 5)`)
  const erase = async (): Promise<string> => {
    await run()
    await database.query(`update fillrate.rows set deleted_at = deleted_at - interval '2 hours'`)
    return (await fillrate('run', '--route', 'sync')).stdout
  }
  expect(await erase()).toContain('row-level security may hide its rows')
  expect((await fillrate('status')).stdout).toContain('row-level security may hide its rows')
  const kept = (): Promise<unknown> =>
    database.query('select key from fillrate.rows where deleted_at is not null')
  expect(await kept()).toEqual([{ key: '5' }])

  // Once all rows can be seen, one that is missing is deleted.
  await database.query(`
    drop policy p on people; create policy p on people to ${ROLE} using (true); delete from people where id = 5`)
  await erase()
  expect(await kept()).toEqual([])
})
