import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openApp, type App, type AppOptions } from '../../../src/app.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { createCrm, crmConfig, withAccounts } from '../../support/crm.ts'
import { environmentFor, runRequest, useHarness } from '../../support/harness.ts'
import { seeded } from '../../support/simulated-service/random.ts'

// How far a bounded run and plan read a large table, and in which order: counted in statements and rows, not in time.

const ROWS = 14_000
const harness = useHarness({
  config: withAccounts,
  prepare: async ({ pool }) => {
    await createCrm(pool, 0)
  },
})
beforeEach(async () => {
  await harness.query(`
    truncate fillrate.rows, fillrate.lookups, fillrate.changes, fillrate.answered_lookups, fillrate.runs,
             fillrate.spend, crm.contacts, crm.accounts restart identity cascade;
    insert into crm.contacts (email) select 'p' || n || '@example.com' from generate_series(1, ${ROWS}) n;`)
})

const opened: App[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((app) => app.close()))
})

const CONTACTS = { sources: ['contacts'], route: 'sync' } as const

/** An app, and the statements that read the table of contacts. */
async function open(options: Partial<AppOptions> = {}): Promise<{ app: App; reads: string[] }> {
  const reads: string[] = []
  const app = await openApp({
    config: parseConfig(withAccounts, null),
    environment: environmentFor(harness.database.url, harness.sandbox),
    log: pino({ level: 'silent' }),
    onStatement: (statement) => {
      if (/from "crm"."contacts"/.test(statement) && !/^\s*update/.test(statement)) reads.push(statement)
    },
    ...options,
  })
  opened.push(app)
  reads.length = 0
  return { app, reads }
}

const isPage = (statement: string): boolean => /with page as materialized/.test(statement)
// What the write statement counts are rows of its own batch.
const countsAll = (statement: string): boolean => /select count\(\*\)(?! from "~)/.test(statement)

test('a run with a limit and a smaller budget reads no further than its limit', async () => {
  const { app, reads } = await open()
  const report = await app.run(runRequest({ ...CONTACTS, limit: 100, budget: 50 }))
  expect(report).toMatchObject({
    status: 'budget_reached',
    reason: 'Stopped at the budget of 50 lookups; 50 rows remain',
    rows: { picked: 50 },
    skipped_over_budget: 50,
    lookups: { requested: 50 },
  })
  expect(report).not.toHaveProperty('unread_over_budget')
  // Up to the budget, and behind its answers.
  expect(reads.filter(isPage)).toHaveLength(2)

  const next = await app.run(runRequest({ ...CONTACTS, limit: 100, budget: 50 }))
  expect(next).toMatchObject({ rows: { picked: 50 }, skipped_over_budget: 50, lookups: { requested: 50 } })
})

test('a run whose limit is reached says nothing of the rows beyond it', async () => {
  const { app, reads } = await open()
  const report = await app.run(runRequest({ ...CONTACTS, limit: 30, budget: 50 }))
  expect(report).toMatchObject({ status: 'completed', reason: null, skipped_over_budget: 0 })
  expect(reads.filter(isPage)).toHaveLength(1)
})

test('a plan with a limit reads no further than the run', async () => {
  const { app, reads } = await open()
  const plan = await app.plan(runRequest({ ...CONTACTS, limit: 100, budget: 50 }))
  expect(plan.sources).toMatchObject([{ rows: 100, picked: 100, table: null, stopped_at: 'limit' }])
  expect(plan.cost).toMatchObject({ lookups: 50, budget: 50, beyond_budget: 50 })
  expect(reads.filter(isPage).length).toBeLessThanOrEqual(2)
  expect(reads.filter(countsAll)).toEqual([])
})

test('a run without a limit stops reading 10,000 rows after its budget, and says so', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'q' || n || '@example.com' from generate_series(1, 10000) n`,
  )
  const { app, reads } = await open()
  const report = await app.run(runRequest({ ...CONTACTS, budget: 50 }))
  expect(report).toMatchObject({
    status: 'budget_reached',
    rows: { picked: 50 },
    unread_over_budget: ['contacts'],
    lookups: { requested: 50 },
  })
  expect(report.reason).toMatch(
    /^Stopped at the budget of 50 lookups; at least [\d,]+ rows remain; not read to the end: contacts$/,
  )
  // A page has fewer rows where the machine is slow, but never more than 4,000: the first has 250, and the last one begins
  // before the ten thousandth row after it.
  const read = report.skipped_over_budget + 50
  expect(read).toBeGreaterThanOrEqual(10_000)
  expect(read).toBeLessThan(250 + 10_000 + 4_000)
  expect(reads.filter(isPage).length).toBeGreaterThanOrEqual(5)
})

test('a plan reads on beyond its budget, and says what all costs', async () => {
  const { app } = await open()
  const whole = await app.plan(runRequest({ ...CONTACTS, budget: 50 }))
  expect(whole.sources).toMatchObject([{ rows: ROWS, picked: ROWS, table: ROWS, stopped_at: null }])
  expect(whole.cost).toMatchObject({ lookups: 50, budget: 50, beyond_budget: ROWS - 50 })
})

test('rows with a stored record are written beyond the budget while there are enough of them', async () => {
  const { app } = await open()
  const shared = `update crm.contacts set email = 'p1@example.com' where id > 1000 and id % 50 = 0`
  await harness.query(shared)
  const report = await app.run(runRequest({ ...CONTACTS, budget: 50 }))
  const expected = (ROWS - 1_000) / 50
  expect(report).toMatchObject({ status: 'budget_reached', lookups: { requested: 50 } })
  expect(report).not.toHaveProperty('unread_over_budget')
  expect(report.rows.picked).toBe(50 + expected)
  expect(report.skipped_over_budget).toBe(ROWS - 50 - expected)
})

test('a budget of 0 reads the whole table for rows that cost nothing', async () => {
  const { app, reads } = await open()
  await app.run(runRequest({ ...CONTACTS, limit: 1, budget: 1 }))
  await harness.query(`update crm.contacts set email = 'p1@example.com' where id = ${ROWS}`)
  reads.length = 0
  const report = await app.run(runRequest({ ...CONTACTS, budget: 0 }))
  expect(report).toMatchObject({ rows: { picked: 1 }, skipped_over_budget: ROWS - 2 })
  expect(reads.filter(isPage).length).toBeGreaterThanOrEqual(ROWS / 4_000)
})

test.each([1, 2, 3])(
  'a dry run takes its rows at random, so that its shares are those of the table (%i)',
  async (seed) => {
    // Old rows differ: the first fifth has no usable address, and of the rest one in twelve.
    await harness.query(
      `update crm.contacts set email = 'no address ' || id where id <= ${ROWS / 5} or id % 12 = 0`,
    )
    const { app, reads } = await open({ random: seeded(seed) })
    const report = await app.run(runRequest({ ...CONTACTS, budget: 100, dryRun: { sample: 5 } }))
    expect(report).toMatchObject({ status: 'budget_reached', lookups: { requested: 100 } })
    expect(report.reason).toBe(
      'Stopped at the budget of 100 lookups; the rows are a random sample of contacts',
    )
    const share = report.rows.invalid_input / report.rows.picked
    expect(share).toBeGreaterThan(0.15)
    expect(share).toBeLessThan(0.4)
    expect(reads.filter(isPage).length).toBeLessThan(120)
  },
)

test('rows without a usable input beyond the budget are not part of a dry run', async () => {
  await harness.query(`update crm.contacts set email = 'no address ' || id where id % 11 = 0`)
  const { app } = await open()
  const where = 't.id <= 3000'
  const report = await app.run(runRequest({ ...CONTACTS, where, budget: 100, dryRun: { sample: 5 } }))
  expect(report.rows.picked - report.rows.invalid_input).toBe(100)
  expect(report.rows.invalid_input).toBeLessThan(40)
})

test('a dry run that reads its whole source says nothing of a sample', async () => {
  const { app } = await open()
  const where = 't.id <= 40'
  const report = await app.run(
    runRequest({ ...CONTACTS, where, limit: 1_000, budget: 100, dryRun: { sample: 5 } }),
  )
  expect(report).toMatchObject({ status: 'completed', reason: null, rows: { picked: 40 } })
})

test.each([{ dryRun: { sample: 5 } }, {}])(
  'the budget is shared over the sources, and what one does not need goes to the others (%o)',
  async (request) => {
    await harness.query(
      `insert into crm.accounts (website) select 'https://a' || n || '.example' from generate_series(1, 20) n`,
    )
    const { app } = await open()
    const byKind = `select kind, count(*)::int as count from fillrate.lookups group by kind order by kind`
    await app.run(runRequest({ ...request, route: 'sync', budget: 30 }))
    expect(await harness.query(byKind)).toEqual([
      { kind: 'domain', count: 15 },
      { kind: 'email', count: 15 },
    ])
    await app.run(runRequest({ ...request, route: 'sync', budget: 30 }))
    expect(await harness.query(byKind)).toEqual([
      { kind: 'domain', count: 20 },
      { kind: 'email', count: 40 },
    ])
  },
)

/** Changes what runs have counted of contacts. */
const setCounts = (changes: object): Promise<unknown> =>
  harness.query(
    `update fillrate.runs set totals = jsonb_set(totals, '{fill_rates,contacts}', totals #> '{fill_rates,contacts}' || $1)
      where totals -> 'fill_rates' ? 'contacts'`,
    [JSON.stringify(changes)],
  )

test('a run counts a table for the fill rate, a hundredth of the time at most', async () => {
  const { app, reads } = await open({ config: parseConfig(crmConfig, null) })
  await harness.query('delete from crm.contacts where id > 20')
  const counts = async (): Promise<number> => {
    const before = reads.length
    await app.run(runRequest({ ...CONTACTS, route: 'sync' }))
    return reads.slice(before).filter(countsAll).length
  }
  expect(await counts()).toBe(1)
  await setCounts({ at: new Date(Date.now() - 50_000), took_ms: 600 })
  expect(await counts()).toBe(0)
  await setCounts({ at: new Date(Date.now() - 61_000), took_ms: 600 })
  expect(await counts()).toBe(1)
  await setCounts({ took_ms: 100 })
  expect(await counts()).toBe(1)
})

test('a limited run does not count a large table for the fill rate', async () => {
  const { app, reads } = await open({ config: parseConfig(crmConfig, null) })
  await harness.query(`insert into crm.contacts (email) select null from generate_series(1, 100000)`)
  await harness.query('analyze crm.contacts')
  await app.run(runRequest({ ...CONTACTS, limit: 10 }))
  expect(reads.filter(countsAll)).toEqual([])
})
