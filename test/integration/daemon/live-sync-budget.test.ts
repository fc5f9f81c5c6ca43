import { afterEach, expect, test } from 'vitest'
import { withDaemon } from '../../support/app-processes.ts'
import { cascadeConfig, createPeople } from '../../support/cascade.ts'
import { startHarness, type Harness } from '../../support/harness.ts'

// The daily budget of live sync, shared by all its runs.

const BUDGET = 20
const config = {
  ...cascadeConfig,
  sources: { people: { ...cascadeConfig.sources.people, follow: true } },
  budget: BUDGET,
}

let harness: Harness
afterEach(() => harness.close())

async function prepare(notFoundShare: number): Promise<void> {
  harness = await startHarness({
    config,
    sandbox: { notFoundShare, missingShare: 0 },
    prepare: ({ pool }) => createPeople(pool, 5),
  })
  const app = await harness.open()
  await app.follow('install', 'people')
}

const insertion = (from: number, to: number): string =>
  `insert into people (id, email, linkedin, name, company)
         select n, 'new' || n || '@example.com', 'https://www.linkedin.com/in/new-' || n, 'Ada Nr' || n, 'Company'
           from generate_series(${from}, ${to}) n`
const insert = (from: number, to: number): Promise<unknown> => harness.query(insertion(from, to))
const requested = (): number => {
  const { inputs } = harness.sandbox.stats({ inputs: true })
  return inputs.distinct
}
/** The budget is spent, and nothing is under way: what the runs picked beyond it waits. */
const isUsedUp = async (): Promise<boolean> => {
  const [row] = await harness.query<{ open: boolean; spent: number }>(
    `select exists (select from fillrate.lookups where state = 'leased') as open,
            (select coalesce(sum(lookups), 0)::int from fillrate.spend) as spent`,
  )
  return row !== undefined && !row.open && row.spent >= BUDGET
}

/** Live sync has read the queue since then: it extends its lease at the start of a tick. */
async function looked(): Promise<void> {
  const lease = (): Promise<unknown[]> =>
    harness.query(`select leased_until from fillrate.leases where scope = 'follow'`)
  for (let tick = 0; tick < 2; tick++) {
    const before = await lease()
    await expect.poll(lease).not.toEqual(before)
  }
}

test('an import and single edits spend from one budget of the day', async () => {
  await prepare(0)
  await withDaemon(harness.open, async () => {
    // Both runs are open, with most of the budget left.
    await harness.query(
      `insert into people (id, email) select n, 'same@example.com' from generate_series(1000, 1149) n`,
    )
    await insert(2_000, 2_000)
    await expect.poll(requested).toBe(2)
    const client = await harness.database.pool.connect()
    await client.query('begin')
    for (let n = 1; n <= 30; n++) await client.query(insertion(2_000 + n, 2_000 + n))
    await client.query(insertion(3_000, 3_199))
    await client.query('commit')
    client.release()
    await expect.poll(isUsedUp).toBe(true)
    await looked()
  })
  expect(requested()).toBe(BUDGET)
})

test('fallback lookups are charged to the daily budget', async () => {
  await prepare(1)
  await insert(1_000, 1_009)
  await withDaemon(harness.open, async () => {
    await expect.poll(isUsedUp).toBe(true)
    await insert(2_000, 2_009)
    await looked()
  })
  expect(requested()).toBe(BUDGET)
})
