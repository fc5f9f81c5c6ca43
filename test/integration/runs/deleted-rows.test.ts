import { beforeEach, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import { createStatusReport } from '../../../src/actions/status.ts'
import { listRecentConditions, readConditions } from '../../../src/store/conditions.ts'
import { describeCondition, type Condition } from '../../../src/domain/condition.ts'
import { countFailureReasons, searchRows } from '../../../src/store/row-search.ts'
import { listLookupHistory } from '../../../src/store/row-history.ts'
import { countCells, listSourceNames, recountRows } from '../../../src/store/rows.ts'
import { groupSkippedCells, iterateSkippedCells } from '../../../src/store/skipped-cells.ts'
import { countRunRowsBySource } from '../../../src/store/runs.ts'
import { TABLE_POLICY } from '../../../src/pipeline/deps.ts'
import { eraseDeleted } from '../../../src/pipeline/deleted-rows.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness, stateSum } from '../../support/harness.ts'

// Rows that are gone from the user's table: `onDelete`.

const source = { ...crmConfig.sources.contacts, where: `t.first_name <> 'Hidden'` }
const config = { ...crmConfig, bulk: { minimum: 1 }, sources: { contacts: source } }
const keeping = { ...config, sources: { contacts: { ...source, onDelete: 'keep' } } }

let app: App
const signal = new AbortController().signal
const harness = useHarness({
  config,
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 0),
})
beforeEach(async () => {
  await app?.close()
  await harness.query(`truncate crm.contacts, fillrate.rows, fillrate.lookups, fillrate.changes,
                        fillrate.skipped_cells, fillrate.jobs, fillrate.deliveries restart identity cascade`)
  // Row 10 shares the address of row 9, and row 20 that of row 19.
  await harness.query(`
    insert into crm.contacts (email, first_name)
    select 'person' || case when n % 10 = 0 then n - 1 else n end || '@example.com', 'Ada' from generate_series(1, 40) n`)
  app = await harness.open()
})

const run = async (route: 'sync' | 'bulk' = 'sync') => {
  const report = await app.run(runRequest({ route }))
  expect(stateSum(report)).toBe(report.rows.picked)
  return report
}
/** Lets the time pass after which deleted rows are erased. */
const wait = () => harness.query(`update fillrate.rows set deleted_at = deleted_at - interval '2 hours'`)
const counted = async () => {
  const status = await createStatusReport(app.db, app.config)
  return { total: status.rows['contacts']?.total, deleted: status.deleted }
}
/** What an operator is shown of a held erasure. */
const held = async () => (await readConditions(app.db, { schedules: null })).map(toTitle)
const toTitle = (condition: Condition): string => describeCondition(condition, Date.now()).title
/** Every text that Fillrate stores, of any table: whether it names the address. */
async function namesOf(address: string): Promise<string[]> {
  const columns = await harness.query<{ t: string; c: string }>(`
    select table_name as t, column_name as c from information_schema.columns
     where table_schema = 'fillrate' and data_type in ('text', 'jsonb', 'ARRAY')`)
  const found: string[] = []
  for (const { t, c } of columns)
    if ((await harness.count(`fillrate.${t} where "${c}"::text like '%${address}%'`)) > 0)
      found.push(`${t}.${c}`)
  return found
}

test('a deleted row leaves every count at the next pass, and its data is erased an hour later', async () => {
  await run('bulk')
  const shared = `'person9@example.com'`
  expect(await namesOf('person5@example.com')).toEqual(
    expect.arrayContaining(['lookups.key', 'deliveries.body']),
  )
  await harness.query(`delete from crm.contacts where id in (5, 9)`)
  const report = await run()
  expect(report.reason).toBe('contacts: 2 rows were deleted from the table, and are no longer counted')
  expect(await counted()).toMatchObject({
    total: 38,
    deleted: [{ source: 'contacts', rows: 2, is_kept: false, held: null }],
  })
  expect(await namesOf('person5@example.com')).not.toEqual([])

  await wait()
  const { requests } = await run()
  expect(requests).toMatchObject({ person: 0, bulk: 0 })
  expect(await counted()).toMatchObject({ total: 38, deleted: [] })
  expect(await namesOf('person5@example.com')).toEqual([])
  expect(await harness.count(`fillrate.changes where key in ('5', '9')`)).toBe(0)
  // Row 10 has the same address: its lookup and its changes stay.
  expect(await harness.count(`fillrate.lookups where key = ${shared} and state = 'found'`)).toBe(1)
  expect(await harness.count(`fillrate.changes where key = '10'`)).toBe(1)
  expect(await harness.count('fillrate.suppressions')).toBe(0)

  await harness.query(`insert into crm.contacts (email, first_name) values ('person5@example.com', 'Ada')`)
  expect(await run()).toMatchObject({ rows: { picked: 1, enriched: 1 }, lookups: { requested: 1 } })
})

test('deleted rows are noticed beside as many new ones', async () => {
  await run()
  await harness.query(`delete from crm.contacts where id in (5, 6, 7)`)
  await harness.query(`
    insert into crm.contacts (email, first_name)
    values ('new1@example.com', 'Ada'), ('new2@example.com', 'Ada'), ('no address', 'Ada')`)
  expect((await run()).reason).toBe('contacts: 3 rows were deleted from the table, and are no longer counted')
  expect((await counted()).deleted).toMatchObject([{ rows: 3 }])
})

test('a deleted row that waits for a dead run is erased with its lookup', async () => {
  await run('bulk')
  await harness.query(
    `update fillrate.rows set state = 'waiting', settled_at = null, run_id = null where key = '5'`,
  )
  await harness.query(`delete from crm.contacts where id = 5`)
  expect(await run()).toMatchObject({ rows: { picked: 0 } })
  expect(
    await harness.query(
      'select key, num_nonnulls(lookup_id) as lookups from fillrate.rows where deleted_at is not null',
    ),
  ).toEqual([{ key: '5', lookups: 1 }])
  await wait()
  await run()
  expect(await namesOf('person5@example.com')).toEqual([])
})

test('a row that comes back is restored, and costs nothing', async () => {
  await run()
  const states = `select key, state, lookup_id, last_written from fillrate.rows where key in ('1', '2') order by key`
  const before = await harness.query(states)
  await harness.query('delete from crm.contacts where id <= 2')
  await run()
  await wait()
  await harness.query(`
    insert into crm.contacts (id, email, first_name) overriding system value
    select n, 'person' || n || '@example.com', 'Ada' from generate_series(1, 2) n`)
  const report = await run()
  expect(report.reason).toBe('contacts: 2 deleted rows came back')
  expect(report.lookups.requested).toBe(0)
  expect(await harness.count('fillrate.rows where deleted_at is not null')).toBe(0)
  // Its columns are blank again, so the record is written once more.
  expect(await harness.query(states)).toEqual(before)
  expect(await harness.count(`fillrate.changes where key in ('1', '2')`)).toBe(4)
})

test('a row that left the source is not a deleted one', async () => {
  await run()
  await harness.query(`update crm.contacts set first_name = 'Hidden'`)
  expect((await run()).reason).toBeNull()
  await wait()
  await run()
  expect(await counted()).toMatchObject({ total: 40, deleted: [] })
  expect(await harness.count('fillrate.lookups')).toBe(36)
})

test('a table that is emptied is not erased without a confirmation, and a reload restores all of it', async () => {
  await run()
  await harness.query('create table crm.saved as select * from crm.contacts')
  await harness.query('delete from crm.contacts')
  expect((await run()).reason).toContain('100% of its rows are gone')
  await wait()
  const report = await run()
  expect(report.reason).toContain('`fillrate forget --deleted contacts --yes` erases it')
  expect(await counted()).toMatchObject({
    total: 0,
    deleted: [{ rows: 40, held: expect.stringContaining('100%') }],
  })
  expect(await held()).toEqual(['40 rows of contacts are gone from the table'])
  expect(await harness.count('fillrate.lookups')).toBe(36)
  expect(await harness.count('fillrate.changes')).toBe(40)

  await harness.query(
    'insert into crm.contacts overriding system value select * from crm.saved; drop table crm.saved',
  )
  expect(await run()).toMatchObject({ rows: { picked: 0 }, lookups: { requested: 0 } })
  expect(await counted()).toMatchObject({ total: 40, deleted: [] })
  expect(await held()).toEqual([])

  // More than a tenth.
  await harness.query('delete from crm.contacts where id <= 12')
  await run()
  await wait()
  expect((await run()).reason).toContain('30% of its rows are gone')
  expect(await harness.count('fillrate.rows where deleted_at is not null')).toBe(12)
  expect(await held()).toEqual(['12 rows of contacts are gone from the table'])
  expect(await app.forgetDeleted('contacts', { dryRun: true, signal })).toEqual({
    dry_run: true,
    source: 'contacts',
    deleted: 12,
    erased: null,
  })
  expect(await app.forgetDeleted('contacts', { dryRun: false, signal })).toMatchObject({
    erased: { rows: 12, lookups: 11, records: 11, changes: 12 },
  })
  expect(await counted()).toMatchObject({ total: 28, deleted: [] })
  // Each of them began once and ended once, over several passes.
  expect(await listRecentConditions(app.db, 10)).toMatchObject([
    { kind: 'held', source: 'contacts', endedAt: expect.any(Date) },
    { kind: 'held', source: 'contacts', endedAt: expect.any(Date) },
  ])
})

test('`keep` keeps the history of a deleted row, out of every count', async () => {
  await app.close()
  app = await harness.open({ config: keeping })
  const { run: id } = await run()
  await harness.query('delete from crm.contacts')
  expect((await run()).reason).toBe(
    'contacts: 40 rows were deleted from the table, and are no longer counted',
  )
  await wait()
  await run()
  expect(await counted()).toMatchObject({ total: 0, deleted: [{ rows: 40, is_kept: true, held: null }] })
  expect(await harness.count('fillrate.lookups')).toBe(36)
  expect(await app.explain('contacts', '3')).toMatchObject({
    row: { exists: false },
    state: { state: 'enriched', run: id },
    lookup: { state: 'found' },
    changes: [{ run: id }],
    next: { what: 'nothing: the row no longer exists' },
  })
})

test('a call in flight is answered and stored before its row is erased', async () => {
  await run()
  await harness.query(`delete from crm.contacts where id = 3`)
  await run()
  await wait()
  await harness.query(`
    update fillrate.lookups set state = 'leased', lease_token = gen_random_uuid(), leased_until = now() + interval '1 hour', resolved_at = null
     where key = 'person3@example.com'`)
  const deps = { db: app.db, policy: TABLE_POLICY }
  const contacts = app.sources.get('contacts')
  if (contacts === undefined) throw new Error('no source')
  expect(await eraseDeleted(deps, contacts, false)).toMatchObject({ erased: { rows: 0 } })
  await harness.query(`
    update fillrate.lookups set state = 'found', lease_token = null, resolved_at = now()
     where key = 'person3@example.com'`)
  expect(await eraseDeleted(deps, contacts, false)).toMatchObject({ erased: { rows: 1, lookups: 1 } })
})

test('a deleted row is in no list, and is neither retried nor written again', async () => {
  await run()
  await harness.query(`
    update fillrate.rows set state = 'failed', failure = 'failed', reason = 'no answer', due_at = now() - interval '1 minute' where key in ('1', '9');
    update crm.contacts set title = null where id in (1, 9);
    insert into fillrate.skipped_cells (source, key, "column", reason) values ('contacts', '2', 'phone', 'unmapped')`)
  const all = { source: null, state: null, reason: null, run: null, identity: null }
  const read = async () => ({
    failures: await countFailureReasons(app.db, { source: null, states: null }),
    skipped: (await iterateSkippedCells(app.db, {}).next()).value ?? [],
    skippedOfState: await groupSkippedCells(app.db, { states: ['enriched'] }),
    found: (await searchRows(app.db, all, { after: null, limit: 99, most: 999 })).rows.length,
    retried: await app.retry({ states: ['failed'], reason: null, sources: [], dryRun: true, signal }),
    remapped: (await app.remap({ source: 'contacts', dryRun: true, sample: 0, signal })).examined.rows,
  })
  const before = await read()
  expect(before).toMatchObject({
    failures: [{ rows: 2 }],
    skipped: [{ key: '2' }],
    skippedOfState: [{ rows: 1 }],
    found: 40,
    retried: { rows: 2, skipped: 0 },
  })
  const [shared] = await harness.query<{ id: number }>(
    `select lookup_id::int as id from fillrate.rows where key = '9'`,
  )
  await harness.query('create table crm.saved as select * from crm.contacts where id in (1, 2, 9)')
  await harness.query('delete from crm.contacts where id in (1, 2, 9)')
  await run()
  expect(await read()).toEqual({
    failures: [],
    skipped: [],
    skippedOfState: [],
    found: 37,
    retried: { ...before.retried, rows: 0, lookups: 0, without_call: 0 },
    remapped: before.remapped - 3,
  })
  expect(await listLookupHistory(app.db, [shared?.id ?? 0])).toMatchObject([{ rows: 1 }])
  expect(await recountRows(app.db)).toBe(0)

  // All of it is back with them, and what was due is picked.
  await harness.query(
    'insert into crm.contacts overriding system value select * from crm.saved; drop table crm.saved',
  )
  expect(await run()).toMatchObject({ rows: { picked: 2 }, lookups: { requested: 0 } })
  expect(await read()).toMatchObject({ skipped: [{ key: '2' }], found: 40, remapped: before.remapped })
  await harness.query('delete from crm.contacts')
  await run()
  expect(await listSourceNames(app.db)).toEqual([])
})

test('a run keeps in its report what was deleted of its rows', async () => {
  const { run: id } = await run()
  const totals = async () => (await harness.query(`select totals from fillrate.runs where id = ${id}`))[0]
  const before = [await countRunRowsBySource(app.db, id), await countCells(app.db, id), await totals()]
  await harness.query('delete from crm.contacts where id <= 3')
  await run()
  expect([await countRunRowsBySource(app.db, id), await countCells(app.db, id), await totals()]).toEqual(
    before,
  )
})
