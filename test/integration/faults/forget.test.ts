import { spawn } from 'node:child_process'
import { once } from 'node:events'
import pino from 'pino'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { type ForgetReport, forgetSubject } from '../../../src/actions/forget.ts'
import { type NamedKind, parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { createWebhookReceiver } from '../../../src/pipeline/receive.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { type CommandLine, createCommandLine } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'
import { suppressionHash } from '../../../src/store/suppressions.ts'
import { whileOpen } from '../../support/answered-people.ts'

/** An address that two rows share. */
const ERASED = 'person19@example.com'
const PROFILE = 'https://www.linkedin.com/in/zzunlike'
const config = {
  ...withAccounts,
  sources: {
    ...withAccounts.sources,
    contacts: {
      ...withAccounts.sources.contacts,
      inputs: { email: 't.email', linkedin_url: 't.linkedin' },
      // A profile that is filled and stored as no input of the user, and a phone that no cell takes.
      outputs: {
        ...withAccounts.sources.contacts.outputs,
        linkedin: 'linkedin',
        phone: { field: 'phone', matches: '^never' },
      },
    },
  },
}
let cli: CommandLine

const harness = useHarness({
  config,
  sandbox: { notFoundShare: 0, missingShare: 0, requestIds: 'email', acceptedShape: 'job_id+request_ids' },
  prepare: async ({ pool }) => {
    await createCrm(pool, 80, 5)
    await pool.query(`insert into crm.contacts (linkedin) values ('${PROFILE}')`)
  },
})
beforeAll(async () => {
  cli = await createCommandLine(harness.database.url, harness.sandbox, config)
  await harness.run({ route: 'bulk', where: `t.id is not null or '${ERASED}' = ''`, sources: ['contacts'] })
  await harness.run({ route: 'sync', sources: ['accounts'] })
})
afterAll(() => cli.remove())

/** Counts the rows of Fillrate's tables that contain a text, bytes as text. */
async function mentions(text: string): Promise<Record<string, number>> {
  const tables = await harness.query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'fillrate'`,
  )
  const found: Record<string, number> = {}
  for (const { name } of tables) {
    const bytes = name === 'deliveries' ? `|| coalesce(encode(raw, 'escape'), '')` : ''
    const rows = await harness.query<{ count: number }>(
      `select count(*)::int as count from fillrate."${name}" t where (t::text ${bytes}) ilike '%' || $1 || '%'`,
      [text],
    )
    if (rows[0]?.count) found[name] = rows[0].count
  }
  return found
}
const post = (event: object): Promise<string> => {
  const body = Buffer.from(JSON.stringify(event))
  const { webhookSecret } = harness.sandbox
  const receive = createWebhookReceiver(
    harness.database.db,
    [webhookSecret],
    BUILT_IN_SERVICE,
    async () => null,
  )
  return receive({ body, signature: signWebhook(body, webhookSecret), job: null })
}
const erase = (kind: NamedKind, typed: string): Promise<ForgetReport> => {
  const target = parseForgetTarget(kind, typed)
  if (typeof target === 'string') throw new Error(target)
  return forgetSubject({ db: harness.database.db, log: pino({ level: 'silent' }) }, [target], {
    dryRun: false,
  })
}
const rowState = (where: string): Promise<unknown> =>
  harness.query(`select state, reason from fillrate.rows where ${where}`)

test('a dry run reports what would be erased and changes nothing', async () => {
  const before = await mentions(ERASED)
  expect(Object.keys(before).sort()).toEqual(['deliveries', 'jobs', 'lookups', 'runs'])
  const ended = await cli.run('forget', '--email', ERASED.toUpperCase(), '--dry-run', '--json')
  expect(ended.code).toBe(0)
  expect(JSON.parse(ended.stdout)).toMatchObject({
    dry_run: true,
    erased: { lookups: 1, records: 1, changes: 2, rows: 2, results: 1 },
    rows: [
      { source: 'contacts', key: '19' },
      { source: 'contacts', key: '20' },
    ],
    remaining: [],
  })
  expect(await mentions(ERASED)).toEqual(before)
})

test('forget removes the address from all tables, stores a tombstone and leaves user rows unchanged', async () => {
  const own = 'select md5(string_agg(t::text, $1 order by id)) as sum from crm.contacts t'
  const before = await harness.query<{ sum: string }>(own, [''])
  const [{ profile, phone }] = (await harness.query(
    `select t.linkedin as profile, l.record ->> 'phone' as phone from crm.contacts t
         join fillrate.rows r on r.key = t.id::text and r.source = 'contacts'
         join fillrate.lookups l on l.id = r.lookup_id where t.id = 19`,
  )) as [{ profile: string; phone: string }]
  expect(
    await harness.scalar(
      `select own_writes #>> '{linkedin,0}' from fillrate.rows where key = '19' and source = 'contacts'`,
    ),
  ).toBe(profile)
  expect(await mentions(phone)).toMatchObject({ lookups: 1, skipped_cells: 2 })
  const ended = await cli.run('forget', '--email', ERASED, '--yes')
  expect(ended.stdout).toContain('nothing left')
  expect(ended.code).toBe(0)
  expect(ended.stdout + ended.stderr).not.toContain(ERASED)
  expect([await mentions(ERASED), await mentions(profile), await mentions(phone)]).toEqual([{}, {}, {}])
  const explained = (await cli.run('explain', 'contacts', '20')).stdout
  expect(explained).not.toContain('inputs have changed')
  expect(explained).not.toContain('not Fillrate')
  expect(explained).toMatch(/title .*not known any more: erased/)
  expect(await harness.query('select kind, hash from fillrate.suppressions')).toMatchObject([
    { kind: 'email' },
  ])
  expect(await harness.query(own, [''])).toEqual(before)
  expect(await rowState(`key in ('19', '20') and source = 'contacts'`)).toEqual(
    Array.from({ length: 2 }, () => ({
      state: 'suppressed',
      reason: 'suppressed by forget: not looked up again',
    })),
  )
  expect(await erase('email', ERASED)).toMatchObject({
    erased: { lookups: 0, rows: 0, results: 0, mentions: 0 },
  })
})

test('later runs request nothing for erased rows, even after their inputs changed', async () => {
  harness.sandbox.reset()
  await harness.query(
    `update crm.contacts set linkedin = 'https://www.linkedin.com/in/other', phone = null where id = 19`,
  )
  await harness.query(`insert into crm.contacts (email) values (' ${ERASED.toUpperCase()}')`)
  const report = await harness.run({ route: 'sync' })
  // Row 20 too, once: what Fillrate wrote into its input is forgotten, so the profile counts as the user's.
  expect(report.rows).toMatchObject({ picked: 3, suppressed: 3, waiting: 0 })
  expect((await harness.run({ route: 'sync' })).rows).toMatchObject({ picked: 0 })
  expect(harness.calls()).toBe(0)
  expect(await mentions(ERASED)).toEqual({})
})

test('a later delivery is stored without erased people, with the others, whether or not its job is known', async () => {
  const rows = await harness.query<{ job_id: string }>(
    'select job_id from fillrate.jobs j where job_id is not null limit 1',
  )
  const results = [
    { request_id: ERASED, data: null },
    { request_id: 'x', data: { email: ERASED, title: 'Erased', confidence: 0.9 } },
    { request_id: 'y', data: { email: 'stays@example.com', title: 'Stays', confidence: 0.9 } },
  ]
  for (const job of [rows[0]?.job_id, 'unknown'])
    expect(await post({ event_id: randomUUID(), job_id: job, status: 'completed', results })).toBe('accepted')
  await harness.run({ route: 'sync' })
  expect(await mentions(ERASED)).toEqual({})
  expect(await mentions('stays@example.com')).toEqual({ deliveries: 2 })
})

test('a suppression can be taken back: the rows are looked up again', async () => {
  harness.sandbox.reset()
  const allowed = await cli.run('forget', '--email', 'person23@example.com', '--allow-again')
  expect(allowed.stdout).toBe('None of these identifiers is suppressed.\n')
  await erase('email', 'person23@example.com')
  await harness.query(`update crm.contacts set title = null where email = 'person23@example.com'`)
  expect((await cli.run('forget', '--email', 'person23@example.com', '--allow-again')).stdout).toContain(
    '1 suppression taken back',
  )
  expect((await harness.run({ route: 'sync' })).rows).toMatchObject({ enriched: 1 })
  expect(harness.calls()).toBe(1)
})

test('suppressions are listed, as hashes with their kind and time', async () => {
  const all = JSON.parse((await cli.run('forget', '--list', '--json')).stdout) as { suppressions: object[] }
  expect(all.suppressions[0]).toEqual({
    kind: 'email',
    hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    since: expect.stringMatching(/^\d{4}-.*Z$/) as string,
  })
  const one = (await cli.run('forget', '--list', '--email', ERASED)).stdout
  expect(one).toContain(suppressionHash('email', ERASED))
  expect(one).toContain('1 suppression;')
  expect((await cli.run('forget', '--list', '--email', 'nobody@example.com')).stdout).toBe(
    'Nothing is suppressed.\n',
  )
})

test('a person requested by another identifier is erased when the answer identifies them', async () => {
  const rows = await harness.query<{ email: string }>(
    `select record ->> 'email' as email from fillrate.lookups where kind = 'linkedin_url'`,
  )
  const email = rows[0]?.email ?? ''
  expect(email).toContain('@')
  expect(await erase('email', email)).toMatchObject({ erased: { lookups: 1, rows: 1 } })
  expect(await mentions('/in/zzunlike')).toEqual({})

  // Resets the lookup by profile: only the address is known to be erased.
  await harness.query(`delete from fillrate.suppressions where kind = 'linkedin_url'`)
  await harness.query(`delete from fillrate.rows where key = '81'`)
  await harness.query(`update crm.contacts set title = null where id = 81`)
  harness.sandbox.reset()
  const report = await harness.run({ route: 'sync' })
  expect(report.rows).toMatchObject({ suppressed: 1, waiting: 0 })
  expect(harness.calls()).toBe(1)
  expect(await mentions(email)).toEqual({})
  expect(await mentions('/in/zzunlike')).toEqual({})
})

test('a company is erased by its domain, and others are not', async () => {
  expect(Object.keys(await mentions('company1.example'))).toEqual(['lookups'])
  expect(await erase('domain', 'https://www.Company1.example/')).toMatchObject({
    erased: { lookups: 1, rows: 1, changes: 1 },
    remaining: [],
  })
  expect(await mentions('company1.example')).toEqual({})
  expect(await mentions('company2.example')).toEqual({ lookups: 1 })
})

test('a key that is the domain of an erased company stays, and is not reported', async () => {
  await harness.query(`
    insert into fillrate.rows (source, key, state, settled_at, due_at) values ('domains', 'company3.example', 'not_found', now(), now())`)
  expect(await erase('domain', 'company3.example')).toMatchObject({ remaining: [] })
  await harness.query(`delete from fillrate.rows where source = 'domains'`)
})

test('a call without an identifier, or with an invalid one, changes nothing', async () => {
  expect((await cli.run('forget')).code).toBe(2)
  const wrong = await cli.run('forget', '--email', 'not an address')
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).not.toContain('not an address')
})

test('a long search holds no lock on rows already found: they are picked and written meanwhile', async () => {
  const { database } = harness
  const key = 'person31@example.com'
  const rows = await database.query<{ id: number; key: string }>(
    `select l.id, r.key from fillrate.lookups l join fillrate.rows r on r.lookup_id = l.id where l.key = $1`,
    [key],
  )
  // A transaction that the last search waits for simulates a long search.
  const forgetting = await whileOpen(
    database,
    'lock table fillrate.source_state in access exclusive mode',
    async () => {
      const report = erase('email', key)
      await expect
        .poll(() =>
          database.count(`pg_locks where not granted and relation = 'fillrate.source_state'::regclass`),
        )
        .toBe(1)
      const free = await database.pool.query(
        'select from fillrate.rows where key = $1 for update skip locked',
        [rows[0]?.key],
      )
      expect(free.rowCount).toBe(1)
      return { report }
    },
  )
  expect(await forgetting.report).toMatchObject({ erased: { lookups: 1 }, remaining: [] })
})

test.each(['deliveries', 'rows', 'changes', 'lookups'])(
  'an erasure that fails at %s says that it did not finish, and the same command erases what is left',
  async (table) => {
    const id = { deliveries: 51, rows: 52, changes: 53, lookups: 54 }[table]
    const email = `person${id}@example.com`
    await harness.run({ route: 'sync' })
    const [{ phone }] = (await harness.query(
      `select record ->> 'phone' as phone from fillrate.lookups where key = $1`,
      [email],
    )) as [{ phone: string }]
    expect(await mentions(phone)).not.toEqual({})
    await harness.query(`
      create or replace function public.fail() returns trigger language plpgsql as $$ begin raise exception 'no space'; end $$;
      create trigger fail before update or delete on fillrate.${table} for each row execute function public.fail()`)
    const failed = await cli.run('forget', '--email', email, '--yes', '--json')
    expect(failed.code).toBe(1)
    expect(JSON.parse(failed.stdout)).toEqual({
      error: {
        kind: 'forget_unfinished',
        message: expect.stringContaining('run the same command again') as string,
        problems: [],
      },
    })
    expect(failed.stdout + failed.stderr).not.toContain(email)
    const audited = 'select outcome, detail from fillrate.audit_events order by id desc limit 1'
    expect(await harness.query(audited)).toMatchObject([
      { outcome: 'failed', detail: expect.stringContaining('did not finish') as string },
    ])
    await harness.query(`drop trigger fail on fillrate.${table}`)

    // A run meets the row meanwhile: it requests nothing, and the row is not shown as erased.
    await harness.query(
      `update crm.contacts set linkedin = 'https://www.linkedin.com/in/moved' || id where email = $1`,
      [email],
    )
    harness.sandbox.reset()
    expect((await harness.run({ route: 'sync' })).rows).toMatchObject({ picked: 1, suppressed: 1 })
    expect(harness.calls()).toBe(0)
    expect(await rowState(`key = '${id}' and source = 'contacts'`)).toEqual([
      { state: 'suppressed', reason: 'suppressed by forget: not looked up again' },
    ])
    // Only what is stored leads to the row now.
    await harness.query(`update crm.contacts set email = null where id = ${id}`)
    expect((await cli.run('forget', '--email', email, '--yes')).code).toBe(0)
    expect([await mentions(email), await mentions(phone)]).toEqual([{}, {}])
    const rows = await harness.query(
      `select last_written, earlier_writes, own_writes from fillrate.rows where key = '${id}' and source = 'contacts'`,
    )
    expect(rows).toEqual([{ last_written: null, earlier_writes: null, own_writes: null }])
  },
)

test('an address at a domain with a hyphen is erased from deliveries, as one with other signs is', async () => {
  for (const email of ["o'neil+a!b#c@some-firm.example", 'ada@a-b.example']) {
    const results = [
      { request_id: 'x', data: { email, title: 'Title' } },
      { request_id: 'y', data: { email: 'stays@a-b.example', title: `Reports to ${email}` } },
    ]
    expect(
      await post({ event_id: randomUUID(), job_id: `of ${email.length}`, status: 'completed', results }),
    ).toBe('accepted')
    expect(await erase('email', email)).toMatchObject({ erased: { results: 1 }, remaining: [] })
    expect(await mentions(email)).toEqual({})
    expect(await mentions('stays@a-b.example')).not.toEqual({})
  }
})

test('sources that cannot be searched are named, the rest is erased, and the command fails', async () => {
  const { contacts } = config.sources
  await cli.configure({
    ...config,
    sources: {
      contacts,
      broken: { ...contacts, outputs: { gone: 'title' } },
      failing: { ...contacts, inputs: { email: '(t.email::int)::text' } },
    },
  })
  const email = 'person41@example.com'
  const ended = await cli.run('forget', '--email', email, '--yes')
  expect(ended.code).toBe(1)
  expect(ended.stdout).toMatch(/not searched: broken \(outputs\.gone: /)
  expect(ended.stdout).toContain('not searched: failing (invalid input syntax for type integer (22P02))')
  expect(ended.stdout).toContain('run the same command again')
  expect(await mentions(email)).toEqual({})
  await cli.configure('{')
  const without = await cli.run('forget', '--email', email, '--yes')
  expect(without.code).toBe(1)
  expect(without.stdout).toContain('not searched: the configuration (')
  await cli.configure(config)
  expect((await cli.run('forget', '--email', email, '--yes')).code).toBe(0)
})

test('an erasure neither waits for a pg_dump that runs, nor do the runs beside it', async ({ skip }) => {
  const { database } = harness
  await database.query(
    `create table crm.large as select n, repeat(md5(n::text), 40) as text from generate_series(1, 5000) n`,
  )
  // Nobody reads what it writes: it stays in its transaction, with its locks.
  const dump = spawn('pg_dump', [database.url], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(dump, 'exit')
  try {
    const isDumping = async (): Promise<boolean> =>
      (await database.count(
        `pg_locks l join pg_stat_activity a using (pid) where a.application_name = 'pg_dump'
              and l.relation = 'fillrate.suppressions'::regclass`,
      )) === 1
    await expect
      .poll(async () => (dump.exitCode === null ? isDumping() : 'older than the server'))
      .not.toBe(false)
    if (dump.exitCode !== null) skip()
    await database.query(
      `update crm.contacts set email = 'moved' || id || '@example.com' where id between 70 and 75`,
    )
    const [ran, erased] = await Promise.all([
      cli.run('run', 'contacts', '--route', 'sync', '--json'),
      cli.run('forget', '--email', 'person65@example.com', '--yes'),
    ])
    expect([ran.code, erased.code]).toEqual([0, 0])
    expect(JSON.parse(ran.stdout)).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
    expect(await mentions('person65@example.com')).toEqual({})
    expect(await isDumping()).toBe(true)
  } finally {
    dump.kill('SIGKILL')
    await ended
  }
})
