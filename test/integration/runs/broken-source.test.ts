import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { SourceWatch } from '../../../src/runs/source-health.ts'
import { TriggerWatch } from '../../../src/daemon/live-sync.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, startHarness } from '../../support/harness.ts'

test('a dry run leaves out a source that breaks while its answers come', async () => {
  const harness = await startHarness({
    config: withAccounts,
    sandbox: { missingShare: 0, notFoundShare: 0, latencyAfterMs: 500 },
    prepare: ({ pool }) => createCrm(pool, 10, 20),
  })
  onTestFinished(() => harness.close())
  const app = await harness.open()
  let broken: Promise<unknown> | null = null
  const breaks = 'alter table crm.contacts drop column seniority'
  const onProgress = ({ picked }: { readonly picked: number }): void => {
    if (picked === 30) broken ??= harness.database.pool.query(breaks)
  }
  const report = await app.run(runRequest({ route: 'sync', dryRun: { sample: 0 }, onProgress }))
  await broken
  expect(report).toMatchObject({
    status: 'completed',
    left_out: [{ source: 'contacts' }],
  })
  // What was shown before stays.
  const { enriched, waiting } = report.rows
  expect(enriched).toBeGreaterThanOrEqual(20)
  expect(waiting).toBe(30 - enriched)
  expect(waiting).toBeGreaterThan(0)
})

test.each([
  ['lasts until a process that opens it again has done so', true],
  ['ends in a process that cannot open it again', false],
])('the condition of a source that could not be opened %s', async (_, canReopen) => {
  const harness = await startHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 1, 1) })
  onTestFinished(() => harness.close())
  const { pool } = harness.database
  const open = async (): Promise<boolean> =>
    (await pool.query('select from fillrate.conditions where ended_at is null')).rowCount === 1
  await harness.query('alter table crm.contacts rename to contacts_away')
  const app = await harness.open()
  const deps = { db: app.db, log: pino({ level: 'silent' }), brokenSources: app.brokenSources }
  const watch = new SourceWatch(deps, [...app.sources.values()], canReopen)
  expect([await watch.check(), await open()]).toEqual([false, true])
  await harness.query('alter table crm.contacts_away rename to contacts')
  expect([await watch.check(), await open()]).toEqual([true, canReopen])
  const next = await harness.open()
  await new SourceWatch(
    { ...deps, brokenSources: next.brokenSources },
    [...next.sources.values()],
    true,
  ).check()
  expect(await open()).toBe(false)
})

test('triggers of a table that is gone are part of its condition, and those of a new one are not', async () => {
  const { contacts } = withAccounts.sources
  const harness = await startHarness({
    config: { ...withAccounts, sources: { contacts: { ...contacts, follow: true } } },
    prepare: ({ pool }) => createCrm(pool, 1),
  })
  onTestFinished(() => harness.close())
  const app = await harness.open()
  await app.follow('install', 'contacts')
  const deps = { db: app.db, log: pino({ level: 'silent' }) }
  const check = (): Promise<ReadonlyMap<string, string> | null> =>
    new TriggerWatch(deps, [...app.sources.values()]).check()
  await harness.query('alter table crm.contacts rename to contacts_away')
  expect(await check()).toEqual(new Map())
  const rows = await harness.query('select kind, source from fillrate.conditions')
  expect(rows).toEqual([{ kind: 'source_broken', source: 'contacts' }])
  await harness.query('create table crm.contacts (like crm.contacts_away including all)')
  expect(await check()).toEqual(new Map())
  // Once the mend is seen.
  await app.run(runRequest({ route: 'sync' }))
  expect([...((await check()) ?? [])]).toEqual([['contacts', expect.stringContaining('contacts_away')]])
})

test('a receiver that was started without a broken source opens it after the mend, and writes what waits', async () => {
  const harness = await startHarness({
    config: withAccounts,
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: ({ pool }) => createCrm(pool, 5, 1),
  })
  onTestFinished(() => harness.close())
  const { pool } = harness.database
  const locker = await pool.connect()
  await locker.query('begin; select from crm.contacts for update')
  const run = harness.run()
  await expect.poll(() => harness.count(`fillrate.lookups where state = 'found'`)).toBe(6)
  await locker.query('alter table crm.contacts rename column title to job_title; commit')
  locker.release()
  expect((await run).left_out).toMatchObject([{ source: 'contacts' }])
  const app = await harness.open()
  onTestFinished(() => app.close())
  const stop = new AbortController()
  const served = app.serve({ signal: stop.signal })
  await expect.poll(() => harness.count(`fillrate.processes where role = 'serve'`)).toBe(1)
  await harness.query('alter table crm.contacts rename column job_title to title')
  await expect.poll(() => harness.count('crm.contacts where title is null')).toBe(0)
  await expect.poll(() => harness.count('fillrate.conditions where ended_at is null')).toBe(0)
  stop.abort()
  await served
})
