import type { ChildProcess } from 'node:child_process'
import { beforeAll, describe, expect, test } from 'vitest'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { Ended } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

const { database, sandbox, cli, here } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 300, 20)
    await pool.query(`update crm.contacts set email = 'nobody' where id % 20 = 1`)
  },
  service: { jobDelayMs: [20, 100] },
  config: withAccounts,
})

const runWith = (changes: NodeJS.ProcessEnv, ...words: string[]): Promise<Ended> => here(words, changes)
const run = (...words: string[]): Promise<Ended> => runWith({}, ...words)
const jsonOf = async (...words: string[]): Promise<unknown> =>
  JSON.parse((await run(...words, '--json')).stdout)

test('check verifies everything without a billable call, and reports that all is ready', async () => {
  const ended = await run('check')
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  for (const name of [
    'configuration',
    'database',
    'schema',
    'source contacts',
    'source accounts',
    'service',
    'key',
    'bulk',
  ])
    expect(ended.stdout).toMatch(new RegExp(`^✓ ${name}`, 'm'))
  expect(sandbox.stats().calls).toEqual({ accepted: 0, refused: 0 })
})

describe('check reports a problem, exits with 2, and still checks the rest', () => {
  test.each([
    [
      'the database',
      { DATABASE_URL: 'postgres://crm:s3cret-word@127.0.0.1:1/crm' },
      /✗ database[\s\S]*- source contacts[\s\S]*✓ service/,
    ],
    ['the service', { FILLRATE_BASE_URL: 'http://127.0.0.1:1' }, /✓ source contacts[\s\S]*✗ service/],
    ['the key', { FILLRATE_API_KEY: undefined }, /✗ key[\s\S]*FILLRATE_API_KEY/],
    ['the environment', { FILLRATE_PORT: 'x' }, /✓ configuration[\s\S]*✗ environment[\s\S]*FILLRATE_PORT/],
  ])('%s', async (_, environment, said) => {
    const ended = await runWith(environment, 'check')
    expect(ended.stdout).toMatch(said)
    expect(ended.stdout + ended.stderr).not.toContain('s3cret-word')
    expect(ended.code).toBe(2)
  })
})

test('before the first run, lists are empty and status says so', async () => {
  expect(await run('runs')).toMatchObject({ code: 0, stdout: 'No run yet.\n' })
  expect(await run('failures')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('No failed rows'),
  })
  expect(await run('status')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('no row was picked yet'),
  })
})

describe('after a run', () => {
  beforeAll(async () => {
    const ended = await run('run')
    if (ended.code !== 0) throw new Error(ended.stderr)
  })

  test('status counts the same as plain SQL', async () => {
    const status = (await jsonOf('status')) as {
      rows: Record<string, Record<string, number>>
      fill_rate: Record<string, { eligible: number; columns: { column: string; filled: number }[] }>
    }
    for (const [source, { total, ...states }] of Object.entries(status.rows)) {
      const picked = 'select count(*)::int from fillrate.rows where source = $1'
      expect(total).toBe(await database.scalar(picked, [source]))
      expect(Object.keys(states).sort()).toEqual([...ROW_STATES].sort())
      expect(Object.values(states).reduce((sum, n) => sum + n, 0)).toBe(total)
    }
    expect(status.fill_rate['contacts']?.eligible).toBe(300)
    for (const column of ['title', 'phone']) {
      const filled = await database.scalar<number>(`select count(${column})::int from crm.contacts`)
      expect(status.fill_rate['contacts']?.columns).toContainEqual({ column, filled })
    }
  })

  test('failures: the reasons, and all rows as CSV', async () => {
    const { total, reasons } = (await jsonOf('failures')) as {
      total: number
      reasons: { reason: string; rows: number }[]
    }
    expect(total).toBe(15)
    expect(reasons).toMatchObject([{ source: 'contacts', state: 'invalid_input', rows: 15 }])

    const ended = await run('failures', '--csv')
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const lines = ended.stdout.trim().split('\r\n')
    expect(lines[0]).toBe('source,key,state,reason,settled_at,column,value,service')
    expect(lines).toHaveLength(16)
    expect(lines[1]).toMatch(/^contacts,\d+,invalid_input,.*,\d{4}-\d\d-\d\dT[^,]+,,,$/)

    expect(await jsonOf('failures', '--state', 'rejected,write-rejected')).toMatchObject({
      total: 0,
      rows: [],
    })
    expect(await jsonOf('failures', '--state', 'invalid_input')).toMatchObject({ total: 15 })
    const unknown = await run('failures', '--source', 'contact')
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('contacts') })
  })

  test('runs are listed; a job that has ended is not cancelled', async () => {
    expect(await jsonOf('runs')).toMatchObject({ runs: [{ id: 1, state: 'completed' }] })
    expect((await run('runs')).stdout).toMatch(/^ +1 +completed .* 320 /m)
    const [job] = await database.query<{ id: string }>('select key as id from fillrate.jobs limit 1')
    expect(await run('cancel', '--job', String(job?.id))).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('finished'),
    })
    expect(await run('cancel', '--job', 'unknown')).toMatchObject({ code: 2 })
    // Two services may number their jobs alike: neither is taken for the other.
    await database.query(
      `insert into fillrate.jobs (key, service_id, job_id, state, size, lookup_ids, deadline_at)
       select gen_random_uuid(), n, 'twice', 'submitted', 1, array[1], now() + interval '1 h' from generate_series(0, 1) n`,
    )
    const refused = await run('cancel', '--job', 'twice')
    expect(refused).toMatchObject({ code: 1, stdout: expect.stringContaining('several services') })
    expect(await database.count(`fillrate.jobs where job_id = 'twice' and state = 'submitted'`)).toBe(2)
    await database.query(`delete from fillrate.jobs where job_id = 'twice'`)
    expect(await run('cancel')).toMatchObject({ code: 2, stderr: expect.stringContaining('--job') })
  })

  test('a --where that Postgres rejects is a usage error', async () => {
    for (const verb of ['plan', 'run']) {
      const ended = await run(verb, '--where', 't.no_such_column = 1')
      expect(ended.stderr).toMatch(/--where[\s\S]*no_such_column/)
      expect(ended.code).toBe(2)
    }
  })
})

/** What a process that goes on prints first. */
const firstObject = async (child: ChildProcess): Promise<unknown> =>
  JSON.parse(await new Promise((resolve) => child.stdout?.once('data', (data) => resolve(String(data)))))

describe('the process', () => {
  test('migrate can be repeated, and reports that there is nothing to do', async () => {
    expect(await run('migrate')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Nothing to do'),
    })
    expect(await jsonOf('migrate')).toEqual({ applied: [] })
  })

  test('with --json an error is one JSON object on standard output, and text on standard error', async () => {
    const ended = await runWith({ DATABASE_URL: undefined }, 'runs', '--json')
    expect(JSON.parse(ended.stdout)).toMatchObject({
      error: { kind: 'configuration', problems: [{ place: 'DATABASE_URL' }] },
    })
    expect(ended.stderr).toContain('DATABASE_URL')
    expect(ended.code).toBe(2)
  })

  test('the sandbox prints its address and runs until stopped', async () => {
    const { child, ended } = cli.start('sandbox', '--port', '0', '--limit', '5', '--window', '2s', '--json')
    const { url } = (await firstObject(child)) as { url: string }
    expect((await fetch(`${url}/_stats`)).status).toBe(200)
    child.kill('SIGINT')
    expect((await ended).code).toBe(0)
  })

  test('serve receives webhooks until stopped', async () => {
    const { child, ended } = cli.start('serve', '--port', '0', '--json')
    const { listens } = (await firstObject(child)) as { listens: string }
    expect((await fetch(`${listens}/readyz`)).status).toBe(200)
    child.kill('SIGTERM')
    const end = await ended
    expect(end.code).toBe(0)
    for (const line of end.stderr
      .trim()
      .split('\n')
      .filter((line) => line.startsWith('{')))
      expect(JSON.parse(line)).toHaveProperty('msg')
  })
})

test('--exit-zero-on turns the exit codes of a normal night into 0, and leaves the others', async () => {
  await database.query(`insert into crm.contacts (email) values ('exit.zero@example.com')`)
  const command = ['run', 'contacts', '--budget', '0', '--wait', '0']
  const codes = []
  for (const words of [[], ['3,4'], ['3'], ['1']])
    codes.push((await run(...command, ...words.flatMap((one) => ['--exit-zero-on', one]))).code)
  expect(codes).toEqual([4, 0, 4, 2])
})
