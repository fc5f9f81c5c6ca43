import { afterEach, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import type { RunRequest } from '../../../src/app.ts'
import * as recover from '../../../src/pipeline/recover.ts'
import { runExitCode } from '../../../src/runs/report.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { requestsFor, cascadeConfig, createPeople, HALF, readPeople } from '../../support/cascade.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { freePort } from '../../support/free-port.ts'
import { runRequest, startHarness, stateSum, type Harness } from '../../support/harness.ts'
import pino from 'pino'

const CONTACTS = 300
const ACCOUNTS = 40
const DRY = { dryRun: { sample: 20 } }
let harness: Harness
afterEach(() => harness.close())

const start = async (sandbox: Partial<SandboxOptions> = {}): Promise<void> => {
  harness = await startHarness({
    config: withAccounts,
    sandbox,
    prepare: async ({ pool }) => {
      await createCrm(pool, CONTACTS, ACCOUNTS)
      await pool.query(`insert into crm.contacts (email) values ('no address'), (null)`)
    },
  })
}
const dryRun = (request: Partial<RunRequest> = {}): Promise<RunReport> => harness.run({ ...DRY, ...request })

/** Every version of every row of the tables: changes with each write, even of the same values. */
const versions = async (): Promise<unknown> =>
  harness.query(`select (select array_agg(t.xmin::text || t.ctid || t.* order by id) from crm.contacts t) as contacts,
                 (select array_agg(t.xmin::text || t.ctid || t.* order by id) from crm.accounts t) as accounts`)

/** Cells written, by source and column, from the changes alone. */
const written = (): Promise<{ source: string; column: string; written: number }[]> =>
  harness.query(`select source, key as column, count(*)::int as written
            from (select source, jsonb_object_keys(after) as key from fillrate.changes) c
           where key <> 'enriched_at' group by source, key order by source, key`)

const byName = (one: { source: string; column: string }, two: { source: string; column: string }): number =>
  `${one.source} ${one.column}`.localeCompare(`${two.source} ${two.column}`)

for (const route of ['sync', 'bulk'] as const)
  test(`the next run writes what a dry run shows, without a call (${route})`, async () => {
    await start()
    const before = await versions()
    const dry = await dryRun({ route })
    expect(await versions()).toEqual(before)
    expect(dry).toMatchObject({ status: 'completed', rows: { picked: 342, waiting: 0, invalid_input: 2 } })
    expect(dry.rows.enriched).toBeGreaterThan(200)
    expect(dry.rows.not_found).toBeGreaterThan(10)
    expect(stateSum(dry)).toBe(342)
    expect(runExitCode(dry)).toBe(0)
    expect(dry.lookups).toMatchObject({ distinct: 310, requested: 310, stored: 0 })
    expect(await harness.query('select from fillrate.changes')).toEqual([])
    expect(await harness.count('fillrate.rows')).toBe(0)

    const calls = harness.calls()
    const report = await harness.run({ route })
    expect(harness.calls()).toBe(calls)
    expect(report.dry_run).toBeUndefined()
    expect(report.rows).toEqual(dry.rows)
    expect(report.lookups).toMatchObject({ distinct: 310, requested: 0, stored: 310 })
    expect(report.cells).toEqual(dry.cells)
    expect((dry.dry_run?.columns ?? []).filter((one) => one.written > 0).toSorted(byName)).toEqual(
      (await written()).toSorted(byName),
    )
    expect(await harness.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
  })

test('the sample shows values before and after, evenly from each source', async () => {
  await start()
  await harness.query(`update crm.contacts set phone = '+47 by hand'`)
  const dry = await dryRun()
  const sample = dry.dry_run?.sample ?? []
  expect(sample).toHaveLength(20)
  expect(sample.filter((row) => row.source === 'accounts')).toHaveLength(10)
  expect(sample.flatMap((row) => row.cells).filter((cell) => cell.column === 'phone')).toEqual([])
  const kept = await harness.query<{ totals: { dry_run: object } }>('select totals from fillrate.runs')
  expect(kept[0]?.totals.dry_run).toEqual({ columns: dry.dry_run?.columns, sample: [] })

  await harness.run()
  for (const { source, key, cells } of sample) {
    expect(cells.length).toBeGreaterThan(0)
    const [row] = await harness.query<Record<string, unknown>>(
      `select * from crm.${source} where id = ${key}`,
    )
    for (const { column, before, after } of cells) {
      expect(before).toBeNull()
      expect(row?.[column]).toEqual(after)
    }
  }
})

test('no process writes what a dry run has requested or keeps polling it', async () => {
  await start({ jobDelayMs: 600_000, retryDelaysMs: Array.from({ length: 1_000 }, () => 100) })
  const before = await versions()
  const port = await freePort()
  const environment = { port, publicUrl: `http://127.0.0.1:${port}` }
  const app = await harness.open({ environment })
  const contacts = { sources: ['contacts'], route: 'bulk' } as const
  const dry = await app.run(runRequest({ ...DRY, ...contacts, waitMs: 0 }))
  expect(dry.rows).toMatchObject({ picked: CONTACTS + 2, waiting: CONTACTS, invalid_input: 2 })
  expect(stateSum(dry)).toBe(CONTACTS + 2)
  expect(runExitCode(dry)).toBe(3)

  const closing = new AbortController()
  const serving = app.serve({ signal: closing.signal })
  harness.sandbox.releaseJobs()
  const open = (): Promise<object[]> =>
    harness.query(`select from fillrate.lookups where state = 'submitted'`)
  await expect.poll(open).toEqual([])
  const log = pino({ level: 'silent' })
  await recover.recoverAbandoned({ db: harness.database.db, log, policy: { attempts: 5 } }, null)
  expect(await harness.query('select from fillrate.answered_lookups')).toEqual([])
  closing.abort()
  await serving
  expect(await versions()).toEqual(before)

  const calls = harness.calls()
  expect((await dryRun(contacts)).rows).toMatchObject({ picked: CONTACTS + 2, waiting: 0 })
  expect(await versions()).toEqual(before)
  expect((await harness.run(contacts)).rows).toMatchObject({ picked: CONTACTS + 2, waiting: 0 })
  expect(harness.calls()).toBe(calls)
})

test('rows that wait for a delivery are shown, and stay with what writes them', async () => {
  await start({ jobDelayMs: 60_000 })
  const real = await harness.run({ sources: ['contacts'], route: 'bulk', waitMs: 0 })
  expect(real.rows.waiting).toBe(CONTACTS)
  const listRows = () => harness.query('select xmin::text, r.* from fillrate.rows r order by key')
  const before = await listRows()
  const calls = harness.calls()
  const dry = await dryRun({ sources: ['contacts'], waitMs: 0 })
  expect(dry.rows).toMatchObject({ picked: CONTACTS, waiting: CONTACTS })
  expect(await listRows()).toEqual(before)
  expect(harness.calls()).toBe(calls)
})

test('two concurrent dry runs request everything once and write nothing', async () => {
  await start({ latencyAfterMs: [1, 20] })
  const before = await versions()
  const apps = await Promise.all([harness.open(), harness.open()])
  const request = runRequest({ ...DRY, route: 'sync' })
  for (const report of await Promise.all(apps.map((app) => app.run(request)))) {
    expect(report.rows).toMatchObject({ picked: 342, waiting: 0 })
    expect(stateSum(report)).toBe(342)
  }
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
  expect(await versions()).toEqual(before)
  expect(await dryRun()).toMatchObject({ rows: { picked: 342, waiting: 0 }, lookups: { requested: 0 } })
})

test('a dry run leaves out, and says so, what another run holds', async () => {
  await start({ jobDelayMs: 600_000 })
  const [one, two] = await Promise.all([harness.open(), harness.open()])
  const interrupting = new AbortController()
  const contacts = { sources: ['contacts'], route: 'bulk', signal: interrupting.signal } as const
  const real = one.run(runRequest(contacts))
  await expect.poll(() => harness.count(`fillrate.jobs where state = 'submitted'`)).toBeGreaterThan(0)
  await expect.poll(() => harness.count(`fillrate.rows where state = 'waiting'`)).toBe(CONTACTS)
  const dry = await two.run(runRequest({ ...DRY, route: 'sync', waitMs: 0 }))
  expect(dry.rows).toMatchObject({ picked: ACCOUNTS, waiting: 0 })
  expect(dry.reason).toBe(`${CONTACTS} rows of the same sources belong to another run and are not included`)
  interrupting.abort()
  await real
})

test('a run finishes beside a dry run that waits, and makes no call for what that has stored', async () => {
  await start({ jobDelayMs: 600_000 })
  const [one, two] = await Promise.all([harness.open(), harness.open()])
  const interrupting = new AbortController()
  const dry = one.run(runRequest({ ...DRY, route: 'auto', signal: interrupting.signal }))
  await expect.poll(() => harness.count(`fillrate.lookups where state = 'submitted'`)).toBeGreaterThan(200)
  await expect.poll(() => harness.count(`fillrate.lookups where resolved_at is not null`)).toBe(ACCOUNTS)
  const real = await two.run(runRequest({ sources: ['accounts'], route: 'sync' }))
  expect(real).toMatchObject({
    status: 'completed',
    rows: { picked: ACCOUNTS, waiting: 0 },
    lookups: { requested: 0, stored: ACCOUNTS },
  })
  expect(await harness.count(`fillrate.runs where state = 'running'`)).toBe(1)
  interrupting.abort()
  await dry
})

test('a run takes over what a dry run has not called yet, and both end', async () => {
  await start({ limit: 40, windowMs: 1_000 })
  const before = await versions()
  const [one, two] = await Promise.all([harness.open(), harness.open()])
  const running = one.run(runRequest({ ...DRY, route: 'sync' }))
  await expect.poll(() => harness.count('fillrate.lookups where resolved_at is not null')).toBeGreaterThan(10)
  expect(await versions()).toEqual(before)
  const real = await two.run(runRequest({ route: 'sync' }))
  const dry = await running
  expect(real).toMatchObject({ status: 'completed', rows: { picked: 342, waiting: 0 } })
  expect(real.lookups.requested).toBeGreaterThan(100)
  expect(dry).toMatchObject({ status: 'completed', rows: { picked: 342, waiting: 0 } })
  expect(real.lookups.requested + dry.lookups.requested).toBe(310)
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
  expect(await harness.query('select from fillrate.changes')).toHaveLength(real.rows.enriched)
})

test('a dry run stays within its budget, and the next run requests only the rest', async () => {
  await start()
  const before = await versions()
  const dry = await dryRun({ budget: 100, route: 'sync' })
  expect(dry).toMatchObject({ status: 'budget_reached', rows: { waiting: 0 }, lookups: { requested: 100 } })
  expect(runExitCode(dry)).toBe(4)
  expect(await versions()).toEqual(before)
  expect(await harness.run({ route: 'sync' })).toMatchObject({
    rows: { waiting: 0 },
    lookups: { requested: 210 },
  })
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test('an interrupted dry run reports what waits, and leaves no lookup that was not called', async () => {
  await start({ latencyAfterMs: [10, 30] })
  const interrupt = new AbortController()
  const app = await harness.open()
  const running = app.run(runRequest({ ...DRY, route: 'sync', signal: interrupt.signal }))
  await expect.poll(() => harness.calls()).toBeGreaterThan(100)
  interrupt.abort()
  const dry = await running
  expect(dry.status).toBe('interrupted')
  expect(dry.rows.waiting).toBeGreaterThan(100)
  expect(stateSum(dry)).toBe(dry.rows.picked)
  expect(await harness.count('fillrate.lookups')).toBe(harness.calls())
  expect(await harness.count('fillrate.lookups where is_pending')).toBe(0)
  expect(await harness.run({ route: 'sync' })).toMatchObject({ rows: { picked: 342, waiting: 0 } })
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test('a cascade is followed to its end', async () => {
  harness = await startHarness({
    config: cascadeConfig,
    sandbox: HALF,
    prepare: ({ pool }) => createPeople(pool, 120),
  })
  const people = await readPeople(harness.database.pool)
  const ways = people.map((person) => requestsFor(person))
  const found = ways.filter((way) => way.title !== null).length
  const dry = await dryRun({ route: 'sync' })
  expect(dry).toMatchObject({
    status: 'completed',
    rows: { picked: 120, enriched: found, not_found: 120 - found },
    lookups: { requested: new Set(ways.flatMap((way) => way.requested)).size },
  })
  expect(await readPeople(harness.database.pool)).toEqual(people)
  expect(await harness.count('fillrate.rows')).toBe(0)
  const calls = harness.calls()
  await harness.run()
  expect(harness.calls()).toBe(calls)
  expect((await readPeople(harness.database.pool)).map((person) => person.title)).toEqual(
    ways.map((way) => way.title),
  )
})

test.each([
  ['run', 'dry run'],
  ['dry run', 'run'],
])('what a dead %s had leased is requested by a %s once the leases expire', async (_, next) => {
  await start()
  await harness.run({ route: 'sync', ...(next === 'run' && DRY) })
  // As a process leaves it that is killed during its last five calls.
  const token = '5f0b9c0e-8d6e-4c59-9d0a-6b1f6b2f7a11'
  await harness.query(`
    update crm.contacts set title = null, phone = null, seniority = null, company = null, enriched_at = null;
    update fillrate.runs set state = 'running', finished_at = null, leased_until = now();
    update fillrate.lookups
       set state = 'leased', lease_token = '${token}', leased_until = now() + interval '3 s', record = null, resolved_at = null, refresh_at = null
     where id in (select id from fillrate.lookups where kind = 'email' order by id limit 5);
    update fillrate.rows set state = 'waiting', failure = null, settled_at = null, due_at = null, input_hash = null
     where lookup_id in (select id from fillrate.lookups where state = 'leased')`)
  const report = await harness.run({ route: 'sync', ...(next === 'dry run' && DRY) })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  expect(report.rows.picked).toBeGreaterThanOrEqual(5)
  expect(report.lookups.requested).toBe(5)
})
