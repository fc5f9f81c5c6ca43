import { beforeEach, describe, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { countFilled } from '../../../src/sources/left-out.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { rewindWrites } from '../../support/rewind-writes.ts'
import { runRequest, stateSum, useHarness } from '../../support/harness.ts'

const { touch: _, ...contacts } = crmConfig.sources.contacts
/** As a user configures it: contacts that keep when they were enriched last. */
const withFreshness = (column = 'enriched_at', options: object = {}) => ({
  ...crmConfig,
  sources: { contacts: { ...contacts, freshness: { column }, ...options } },
})

const harness = useHarness({
  config: withFreshness(),
  prepare: async ({ pool }) => {
    await createCrm(pool, 0)
    await pool.query(`
        alter table crm.contacts add column changed_at timestamptz default now(), add column local_at timestamp,
          add column enriched_on date, add column attributes jsonb, add column last_sync text`)
  },
})
beforeEach(() =>
  harness.query(
    'truncate crm.contacts, fillrate.source_state, fillrate.rows, fillrate.lookups, fillrate.changes cascade',
  ),
)

async function run(config: object = withFreshness()): Promise<RunReport & { calls: number }> {
  const before = harness.calls()
  const report = await harness.run({ route: 'sync' }, { config })
  expect(stateSum(report)).toBe(report.rows.picked)
  return { ...report, calls: harness.calls() - before }
}

/** The fill rate of the contacts. */
async function fillRate(config: object = withFreshness()): Promise<unknown> {
  const app = await harness.open({ config })
  const source = app.sources.get('contacts')
  const counts = source && (await app.db.transaction().execute((tx) => countFilled(tx, source)))
  await app.close()
  return counts
}

/** Addresses of the contacts that a run has picked. */
const picked = async (): Promise<string[]> =>
  (
    await harness.query<{ email: string }>(
      'select email from crm.contacts c join fillrate.rows r on r.key = c.id::text order by c.id',
    )
  ).map((row) => row.email)

const insert = (email: string, columns: Record<string, string> = {}): Promise<unknown> =>
  harness.query(`insert into crm.contacts (${['email', ...Object.keys(columns)].join(', ')})
         values (${[`'${email}'`, ...Object.values(columns)].join(', ')})`)

const days = (n: number): string => `now() - interval '${n} days'`

test('a stamp that one source has set does not keep another from filling the same rows', async () => {
  await insert('a@x.example')
  await insert('b@x.example', { enriched_at: `now() - interval '1 day'` })
  const freshness = { column: 'enriched_at' }
  const { title, ...others } = contacts.outputs
  const two = {
    ...crmConfig,
    sources: {
      titles: { ...contacts, freshness, outputs: { title } },
      contacts: { ...contacts, freshness, outputs: others },
    },
  }
  const only = async (source: string) => {
    const report = await harness.run({ sources: [source] }, { config: two })
    return { picked: report.rows.picked, requested: report.lookups.requested }
  }
  expect(await only('titles')).toEqual({ picked: 1, requested: 1 })
  expect(await only('contacts')).toEqual({ picked: 1, requested: 0 })
  for (const source of ['titles', 'contacts']) expect(await only(source)).toEqual({ picked: 0, requested: 0 })
  expect(
    await harness.query(
      'select title is not null and phone is not null as filled from crm.contacts order by id',
    ),
  ).toEqual([{ filled: true }, { filled: false }])
})

test('the skipped cells of a row stay listed when another program stamps it', async () => {
  await harness.query('alter table crm.contacts add constraint no_title check (title is null)')
  try {
    await insert('a@x.example')
    const listed = `select source, key, "column", reason from fillrate.skipped_cells`
    await run(withFreshness('enriched_at'))
    const before = await harness.query(listed)
    expect(before).toMatchObject([{ column: 'title', reason: 'check' }])
    await harness.query(`update fillrate.rows set due_at = now() - interval '1 minute'`)
    await harness.query(`update crm.contacts set enriched_at = now() - interval '1 day', phone = null`)
    expect(await run(withFreshness('enriched_at'))).toMatchObject({
      rows: { picked: 0 },
      calls: 0,
    })
    expect(await harness.query(listed)).toEqual(before)
  } finally {
    await harness.query('alter table crm.contacts drop constraint no_title')
  }
})

describe('a row with a recent stamp', () => {
  test.each([
    ['a timestamptz', 'enriched_at', days(10), days(100)],
    ['a timestamp without time zone', 'local_at', days(10), days(100)],
    ['a date', 'enriched_on', 'current_date - 89', 'current_date - 92'],
  ])('is not picked, and one with a stale stamp or none is: %s', async (_, column, recent, stale) => {
    await insert('recent@x.example', { [column]: recent })
    await insert('stale@x.example', { [column]: stale })
    await insert('none@x.example')
    const report = await run(withFreshness(column))
    expect(report).toMatchObject({ rows: { picked: 2 }, calls: 2 })
    expect(await picked()).toEqual(['stale@x.example', 'none@x.example'])
  })

  test('without a zone is read and written in UTC, whatever the zone of the sessions', async () => {
    const database =
      (await harness.query<{ name: string }>('select current_database() as name'))[0]?.name ?? ''
    await insert('fresh@x.example', { local_at: `now() at time zone 'UTC' - interval '89 days 21 hours'` })
    try {
      for (const zone of ['Asia/Tokyo', 'America/Los_Angeles']) {
        await harness.query(`alter database "${database}" set timezone = '${zone}'`)
        await insert(`${zone}@x.example`)
        await run(withFreshness('local_at'))
      }
    } finally {
      await harness.query(`alter database "${database}" reset timezone`)
    }
    expect(await picked()).toEqual(['Asia/Tokyo@x.example', 'America/Los_Angeles@x.example'])
    const stamps = await harness.query<{ age: number }>(
      `select abs(extract(epoch from local_at - now() at time zone 'UTC'))::float8 as age from crm.contacts where phone is not null`,
    )
    expect(stamps.length).toBeGreaterThan(0)
    expect(stamps.filter(({ age }) => age > 3_600)).toEqual([])
  })

  test('is not picked if the stamp lies in the future', async () => {
    await insert('tomorrow@x.example', { enriched_at: days(-1) })
    await insert('ever@x.example', { enriched_at: `'infinity'` })
    await insert('never@x.example', { enriched_at: `'-infinity'` })
    await run()
    expect(await picked()).toEqual(['never@x.example'])
  })

  test('is picked once the stamp is stale', async () => {
    await insert('seen@x.example', { enriched_at: days(10) })
    await run()
    expect(await picked()).toEqual([])
    await harness.query(`update crm.contacts set enriched_at = ${days(91)}`)
    await run()
    expect(await picked()).toEqual(['seen@x.example'])
  })

  test('is not picked again although it is due, and without a call', async () => {
    await insert('due@x.example')
    await run()
    await harness.query(`update crm.contacts set phone = null, enriched_at = ${days(10)}`)
    await harness.query(`update fillrate.rows set due_at = now()`)
    await harness.query(`update fillrate.lookups set refresh_at = now()`)
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  })

  test('is picked if its inputs changed since Fillrate set the stamp, and not if another program set it', async () => {
    await insert('ours@x.example')
    await insert('theirs@x.example')
    await run()
    await harness.query(`update crm.contacts set phone = null, email = 'new-' || email`)
    await harness.query(`update crm.contacts set enriched_at = ${days(1)} where email like '%theirs%'`)
    expect(await run()).toMatchObject({ rows: { picked: 1 }, calls: 1 })
    const [ours] = await harness.query(
      `select phone is not null as filled from crm.contacts where email like '%ours%'`,
    )
    expect(ours).toEqual({ filled: true })
  })

  test('is picked again if its inputs changed, and whoever picked it has died or only asked', async () => {
    await insert('ours@x.example')
    await run()
    await harness.query(`update crm.contacts set phone = null, email = 'new-' || email`)
    await harness.run({ route: 'sync', dryRun: { sample: 1 } }, { config: withFreshness() })

    expect(await run()).toMatchObject({ rows: { picked: 1, enriched: 1 }, calls: 0 })
    expect(await harness.query('select from crm.contacts where phone is null')).toEqual([])
  })
})

describe('a write sets the stamp', () => {
  test.each([
    ['a timestamptz', 'enriched_at', 'enriched_at = r.settled_at'],
    ['a timestamp', 'local_at', 'local_at = r.settled_at::timestamp'],
    ['a date', 'enriched_on', 'enriched_on = r.settled_at::date'],
  ])('of %s, and the next run picks nothing', async (_, column, condition) => {
    await insert('new@x.example')
    await run(withFreshness(column))
    const [row] = await harness.query(
      `select ${condition} as stamped, cells_written = num_nonnulls(title, phone, seniority, company) as counted from crm.contacts c join fillrate.rows r on r.key = c.id::text`,
    )
    expect(row).toEqual({ stamped: true, counted: true })
    await harness.query('update crm.contacts set phone = null')
    expect(await run(withFreshness(column))).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  })

  test('as `touch` says, which may name the same column', async () => {
    await insert('new@x.example')
    const config = withFreshness('local_at', { touch: { local_at: `now() at time zone 'UTC'` } })
    await run(config)
    const [row] = await harness.query(
      `select local_at = r.settled_at at time zone 'UTC' as stamped from crm.contacts c join fillrate.rows r on r.key = c.id::text`,
    )
    expect(row).toEqual({ stamped: true })
  })

  test('not if no cell is written', async () => {
    await insert('full@x.example', { title: `'a'`, phone: `'b'`, seniority: `'c'` })
    await harness.query(`alter table crm.contacts add constraint no_company check (company is null)`)
    await run().finally(() => harness.query('alter table crm.contacts drop constraint no_company'))
    expect(await harness.query('select company, enriched_at from crm.contacts')).toEqual([
      { company: null, enriched_at: null },
    ])
  })
})

describe('undo', () => {
  test('restores the stamp, and the next run requests and writes nothing', async () => {
    await insert('none@x.example')
    await insert('stale@x.example', { enriched_at: `'2020-01-02T03:04:05.678901Z'` })
    const before = await harness.query('select * from crm.contacts order by id')
    const { run: id } = await run()
    const app = await harness.open({ config: withFreshness() })
    const options = { run: id, dryRun: false, signal: new AbortController().signal }
    expect((await app.undo(options)).changes).toMatchObject({ restored: 2 })
    expect(await harness.query('select * from crm.contacts order by id')).toEqual(before)
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
    await app.close()
  })
})

describe('a stamp that a user removes', () => {
  test('lets the next run enrich the row again, from the stored record', async () => {
    await insert('again@x.example')
    await run()
    await harness.query('update crm.contacts set enriched_at = null, phone = null')
    expect(await run()).toMatchObject({ rows: { picked: 1, enriched: 1 }, calls: 0 })
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  })

  test('changes nothing in a row that was enriched without one', async () => {
    await insert('before@x.example')
    await run({ ...crmConfig, sources: { contacts } })
    await harness.query('update crm.contacts set phone = null')
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  })
})

test('a row that waits for a dead run, and that another program has enriched, is settled without a call', async () => {
  await insert('left@x.example')
  await run()
  await rewindWrites(harness)
  await harness.query(
    `update fillrate.lookups set state = 'pending', record = null, resolved_at = null, refresh_at = null`,
  )
  await harness.query(`update crm.contacts set enriched_at = ${days(1)}`)
  expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  expect(await harness.query('select state, reason from fillrate.rows')).toEqual([
    { state: 'unchanged', reason: 'enriched_at is less than 90 d old' },
  ])
})

test('retry leaves a failed row alone that another program has enriched since', async () => {
  await insert('failed@x.example')
  await insert('theirs@x.example')
  await run()
  await harness.query(`update fillrate.rows set state = 'failed', failure = 'failed', reason = 'no response'`)
  await harness.query('update crm.contacts set phone = null')
  await harness.query(`update crm.contacts set enriched_at = ${days(1)} where email like 'theirs%'`)
  const app = await harness.open({ config: withFreshness() })
  const options = { sources: [], states: ['failed' as const], reason: null, dryRun: false }
  const signal = new AbortController().signal
  expect(await app.retry({ ...options, signal })).toMatchObject({ rows: 1, skipped: 1 })
  await app.close()
  expect(await run()).toMatchObject({ rows: { picked: 1 } })
})

test('plan and explain give the reason', async () => {
  await insert('recent@x.example', { enriched_at: days(10) })
  await insert('stale@x.example', { enriched_at: days(100) })
  const app = await harness.open({ config: withFreshness() })
  const [source] = (await app.plan(runRequest())).sources
  expect(source).toMatchObject({
    rows: 2,
    fresh: 1,
    picked: 1,
    recently_enriched: { rows: 1, reason: 'enriched_at is less than 90 d old' },
  })
  const [row] = await harness.query<{ id: string; until: Date }>(
    `select id::text, enriched_at + interval '90 days' as until from crm.contacts where email like 'recent%'`,
  )
  const history = await app.explain('contacts', row?.id ?? '')
  expect(history).toMatchObject({ state: null, row: { fresh_until: row?.until } })
  expect(history.next).toEqual({
    what: 'counts as enriched, because enriched_at is less than 90 d old; eligible again',
    at: row?.until,
  })
  await app.close()
})

test('the fill rate counts the rows with a recent stamp', async () => {
  await insert('recent@x.example', { enriched_at: days(10), title: `'CEO'` })
  await insert('stale@x.example', { enriched_at: days(100) })
  await run()
  expect(await fillRate()).toMatchObject({
    eligible: 2,
    columns: [{ column: 'title', filled: 2 }, {}, {}, {}],
  })
})

describe('a column that cannot be a stamp is refused', () => {
  test.each([
    ['last_sync', "'last_sync', which is text"],
    ['attributes', "'attributes', which is jsonb"],
    ['attributes.at', "'attributes', which is jsonb"],
    ['nothing', "'nothing', which is not a column of crm.contacts"],
    ['id', "'id', a column of the key"],
  ])('%s', async (column, found) => {
    const failure = await harness.open({ config: withFreshness(column) }).catch((error: unknown) => error)
    expect(failure).toMatchObject({ problems: [{ place: 'freshness.column', found }] })
  })
})
