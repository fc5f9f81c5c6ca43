import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import type { Ended } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from '../cli/command-line.ts'

const KEY = 'active-key-5d0e77a9'
const WEBHOOK_SECRET = 'webhook-secret-c3a1f00d'
const TOKEN = 'dashboard-token-19e4b2'
const SECRETS = [KEY, WEBHOOK_SECRET, TOKEN]
/** Personal data, which must not be in any line above debug. */
const PERSONAL = [/person\d+@example\.com/i, /unreachable person/, /Ada Nr/]

const { database, sandbox, cli } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 60)
    await pool.query(`
      insert into crm.contacts (email) values ('unreachable person');
      alter table crm.contacts add constraint short check (id > 3 or phone is null);
      create unique index on crm.contacts (phone)`)
  },
  service: {
    keys: [KEY],
    webhookSecret: WEBHOOK_SECRET,
    jobDelayMs: [5, 20],
    faults: {
      '500': 0.1,
      'drop-after': 0.05,
      'not-a-record': 0.1,
      'bad-signature': 1,
      'foreign-result': 0.2,
    },
  },
  config: { ...crmConfig, bulk: { minimum: 20 }, attempts: 2 },
})

const run = (level: string, ...words: string[]): Promise<Ended> =>
  cli.runWith(
    {
      FILLRATE_API_KEY: KEY,
      FILLRATE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      FILLRATE_DASHBOARD_TOKEN: TOKEN,
      LOG_LEVEL: level,
    },
    ...words,
  )

function expectClean({ stdout, stderr }: Ended, personalToo: boolean): void {
  const output = stdout + stderr
  expect(SECRETS.filter((secret) => output.includes(secret))).toEqual([])
  const named = PERSONAL.filter((pattern) => personalToo && pattern.test(output))
  expect(named.map(String)).toEqual([])
}

interface LogLine {
  readonly level: string
  readonly event: string
}

const readLines = ({ stderr }: Ended): LogLine[] =>
  stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as LogLine)

test('no secret is in any output at any level, and no personal data above debug', async () => {
  expectClean(await run('trace', 'run', '--route', 'bulk', '--limit', '30', '--json', '--wait', '20s'), false)
  const sync = await run('debug', 'run', '--route', 'sync')
  expectClean(sync, false)
  const lines = readLines(sync)
  const isAboveDebug = ({ level }: LogLine): boolean => level !== 'debug'
  expectClean({ ...sync, stderr: JSON.stringify(lines.filter(isAboveDebug)) }, true)
  for (const line of lines)
    expect(line).toMatchObject({
      event: expect.stringMatching(/^[a-z_]+$/),
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      pid: expect.any(Number),
      hostname: expect.any(String),
      version: expect.any(String),
    })
  expect(lines.map(({ event }) => event)).toEqual(expect.arrayContaining(['run_started', 'run_ended']))
  const calls = lines.filter(({ event }) => event === 'call_ended' || event === 'call_failed')
  expect(calls.length).toBeGreaterThan(20)
  for (const call of calls)
    expect(call).toMatchObject({
      endpoint: expect.any(String),
      duration_ms: expect.any(Number),
      lookup: expect.any(Number),
    })
  // The only lines that are for debugging a row: the calls of every row name it by number.
  expectClean({ ...sync, stderr: JSON.stringify(calls) }, true)
  const rest = await Promise.all([run('info', 'failures'), run('trace', 'check')])
  for (const ended of rest) expectClean(ended, true)
})

test('a rejected key stops the run and is not printed', async () => {
  sandbox.configure({ keys: ['another-key-altogether'] })
  await database.query(`insert into crm.contacts (email) values ('later@example.com')`)
  const refused = await run('trace', 'run', '--route', 'sync')
  expect(refused.code).toBe(2)
  expectClean(refused, false)
  expect(refused.stderr).toMatch(/"level":"error".*"event":"run_failed".*"status":"unauthorized"/)
})

test('no table of any schema contains a secret', async () => {
  const tables = await database.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema in ('fillrate', 'crm', 'public')`,
  )
  expect(tables.length).toBeGreaterThan(8)
  for (const { name } of tables)
    for (const secret of SECRETS) {
      const rows = await database.query(`select 1 from ${name} t where t::text like '%' || $1 || '%'`, [
        secret,
      ])
      expect(rows, `${name} holds a secret`).toEqual([])
    }
})

test('secrets are not on the command line, where every user of the machine can see them', async () => {
  const started = cli.startWith({ FILLRATE_API_KEY: KEY, FILLRATE_WEBHOOK_SECRET: WEBHOOK_SECRET }, 'serve')
  const { pid } = started.child
  const read = async (): Promise<string> =>
    process.platform === 'linux'
      ? await readFile(`/proc/${pid}/cmdline`, 'utf8')
      : spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout
  // Empty until the child has begun to execute its program.
  await expect.poll(read).not.toBe('')
  const seen = await read()
  started.child.kill('SIGKILL')
  await started.ended
  for (const secret of SECRETS) expect(seen).not.toContain(secret)
})
