import { expect, test } from 'vitest'
import dropcontact from '../../../examples/services/dropcontact.ts'
import icypeasProfiles from '../../../examples/services/icypeas-profiles.ts'
import icypeas from '../../../examples/services/icypeas.ts'
import lusha from '../../../examples/services/lusha.ts'
import prospeo from '../../../examples/services/prospeo.ts'
import type { TestDatabase } from '../../support/database.ts'
import {
  countKnown,
  countSpend,
  expectNoCall,
  isKnownNumber,
  MAILED,
  NAMED,
  openDescribed,
  type PeopleSource,
  runDescribed,
  scale,
  UNLIMITED,
} from '../../support/described-runs.ts'
import type { StandIn } from '../../support/described-service.ts'
import { DROPCONTACT_KEY, DROPCONTACT_LIMIT, playDropcontact } from '../../support/stand-ins/dropcontact.ts'
import { ICYPEAS_KEY, ICYPEAS_LIMIT, ICYPEAS_READS, playIcypeas } from '../../support/stand-ins/icypeas.ts'
import { isRestricted, LUSHA_KEY, LUSHA_LIMIT, playLusha } from '../../support/stand-ins/lusha.ts'
import { isInvalid, playProspeo, PROSPEO_KEY } from '../../support/stand-ins/prospeo.ts'

// Services with jobs or many people in a call, described from their documentation, against stand-ins with their documented limits,
// bills and faults: 5% of the calls get a 5xx, and 5% an error in a 200.

/** Every cell has what the stand-in has of its row, or nothing. */
async function expectTitles(
  database: TestDatabase,
  table: string,
  titleOf: (n: number) => string | null,
): Promise<void> {
  const rows = await database.query<{ id: number; title: string | null }>(
    `select id, title from ${table} order by id`,
  )
  expect(rows).toEqual(rows.map(({ id }) => ({ id, title: titleOf(id) })))
}

const ofKnown =
  (titleOf: (n: number) => string) =>
  (n: number): string | null =>
    isKnownNumber(n) ? titleOf(n) : null

/** What was billed is what was counted, and nothing was billed twice. */
async function expectCounted(database: TestDatabase, standIn: StandIn): Promise<void> {
  const { credits } = await countSpend(database)
  expect({ billed: standIn.credits(), again: standIn.billedAgain().times }).toEqual({
    billed: credits,
    again: 0,
  })
}

/** Calls met both kinds of fault. */
function expectFaults(standIn: StandIn): void {
  const { failed, erred } = standIn.faults()
  expect(Math.min(failed, erred)).toBeGreaterThan(0)
}

const ANALYST = (n: number): string => `Analyst ${n}`
const INDUSTRY = (n: number): string => `Industry ${n}`
const WORK = (n: number): string => `work${n}@found.example`
const EMAIL = (n: number): string => `p${n}@found.example`

test('Dropcontact: jobs that are fetched, whose rows come back in another order', async () => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 510, inputs: MAILED, title: 'job' },
    { table: 'named', people: 20, inputs: NAMED, title: 'work_email' },
    { table: 'profiled', people: 12, inputs: { linkedin_url: 't.profile' }, title: 'job' },
  ]
  const standIn = await playDropcontact({ hasFaults: true })
  const service = scale(dropcontact, { limit: DROPCONTACT_LIMIT, after: '200ms' })
  const { database, fillrate } = await runDescribed({ standIn, sources, service, key: DROPCONTACT_KEY })
  expectFaults(standIn)
  expect(standIn.jobs.filter(({ size }) => size === 250).length).toBe(2)
  // An email costs its verification, found or not.
  expect(standIn.credits()).toBe(510 + countKnown(20) + countKnown(12))
  await expectCounted(database, standIn)
  await expectTitles(database, 'mailed', ofKnown(ANALYST))
  await expectTitles(database, 'named', ofKnown(WORK))
  await expectTitles(database, 'profiled', ofKnown(ANALYST))
  await expectNoCall(fillrate, standIn)
})

test('Dropcontact: deliveries without a signature, and a lost one that is fetched', async () => {
  const sources: PeopleSource[] = [{ table: 'mailed', people: 500, inputs: MAILED, title: 'job' }]
  const standIn = await playDropcontact({ isDelivered: (job) => job !== 2 })
  const { database, fillrate } = await runDescribed({
    standIn,
    sources,
    service: scale(dropcontact, { limit: DROPCONTACT_LIMIT, after: '2s' }),
    key: DROPCONTACT_KEY,
    env: { FILLRATE_WEBHOOK_SECRET: 'a secret of the test' },
  })
  expect(await Promise.all(standIn.receipts)).toEqual([200])
  expect(standIn.calls.filter(({ endpoint }) => endpoint === 'fetch').length).toBeGreaterThan(0)
  await expectCounted(database, standIn)
  await expectTitles(database, 'mailed', ofKnown(ANALYST))
  await expectNoCall(fillrate, standIn)
})

test('Prospeo: a miss is a 400, results name their identifier, and headers tell the limit', async () => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 420, inputs: MAILED, title: 'current_job_title' },
    { table: 'named', people: 240, inputs: NAMED, title: 'email.email' },
    { table: 'firms', people: 200, inputs: { domain: 't.domain' }, title: 'industry', kind: 'company' },
  ]
  const standIn = await playProspeo({ hasFaults: true })
  const service = scale(prospeo, { limit: undefined })
  const { database, fillrate, report } = await runDescribed({ standIn, sources, service, key: PROSPEO_KEY })
  // Of each hundred two are no input that it takes.
  expect(report.rows.rejected).toBe(9 + 5 + 4)
  expectFaults(standIn)
  await expectCounted(database, standIn)
  const ofTaken = (titleOf: (n: number) => string) => (n: number) =>
    isInvalid(n) ? null : ofKnown(titleOf)(n)
  await expectTitles(database, 'mailed', ofTaken(ANALYST))
  await expectTitles(database, 'named', ofTaken(WORK))
  await expectTitles(database, 'firms', ofTaken(INDUSTRY))
  await expectNoCall(fillrate, standIn)
  // All that was found is requested again, which is free, and the answers say so.
  const { credits } = await countSpend(database)
  await database.query(
    `update mailed set title = null; update named set title = null; update firms set title = null;
     update fillrate.rows set due_at = now() where state = 'enriched';
     update fillrate.lookups set refresh_at = now() where state = 'found'`,
  )
  const calls = standIn.calls.length
  expect(await fillrate.run(UNLIMITED)).toMatchObject({ status: 'completed' })
  expect(standIn.calls.length).toBeGreaterThan(calls)
  expect((await countSpend(database)).credits).toBe(credits)
})

test('Lusha: failures and refusals within a 200, a hundred people in a call', async () => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 240, inputs: MAILED, title: 'jobTitle.title' },
    { table: 'named', people: 40, inputs: NAMED, title: 'work_email' },
    { table: 'firms', people: 40, inputs: { domain: 't.domain' }, title: 'industry', kind: 'company' },
  ]
  const standIn = await playLusha({ hasFaults: true })
  const service = scale(lusha, { limit: LUSHA_LIMIT })
  const { database, fillrate, report } = await runDescribed({ standIn, sources, service, key: LUSHA_KEY })
  expect(report.rows.rejected).toBe(6)
  expectFaults(standIn)
  // A person cost one, half of the most, and a company two.
  expect(standIn.credits()).toBe(countKnown(240) + countKnown(40) - 6 + 2 * countKnown(40))
  await expectCounted(database, standIn)
  const ofAllowed = (titleOf: (n: number) => string) => (n: number) =>
    isRestricted(n) ? null : ofKnown(titleOf)(n)
  await expectTitles(database, 'mailed', ofAllowed(ANALYST))
  await expectTitles(database, 'named', ofAllowed(WORK))
  await expectTitles(database, 'firms', ofKnown(INDUSTRY))
  await expectNoCall(fillrate, standIn)
})

test.each([
  ['Prospeo', scale(prospeo, { limit: undefined }), playProspeo, PROSPEO_KEY, 'current_job_title', isInvalid],
  ['Lusha', scale(lusha, { limit: LUSHA_LIMIT }), playLusha, LUSHA_KEY, 'jobTitle.title', isRestricted],
] as const)('%s: one call a lookup', async (_, service, play, key, title, isRefused) => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 40, inputs: MAILED, title },
    { table: 'named', people: 20, inputs: NAMED, title },
    { table: 'firms', people: 12, inputs: { domain: 't.domain' }, title: 'industry', kind: 'company' },
  ]
  const standIn = await play({ hasFaults: true })
  const { database, report } = await runDescribed({ standIn, sources, service, key, route: 'sync' })
  expect(report.requests.bulk).toBe(0)
  expectFaults(standIn)
  await expectCounted(database, standIn)
  const ofTaken = (titleOf: (n: number) => string) => (n: number) =>
    isRefused(n) ? null : ofKnown(titleOf)(n)
  await expectTitles(database, 'mailed', ofTaken(ANALYST))
  await expectTitles(database, 'named', ofTaken(ANALYST))
  await expectTitles(database, 'firms', ofKnown(INDUSTRY))
})

test('Icypeas profiles: results that name nothing, each in the row of its place', async () => {
  const sources: PeopleSource[] = [{ table: 'mailed', people: 231, inputs: MAILED, title: 'profile' }]
  const standIn = await playIcypeas({ hasFaults: true })
  const { database, fillrate } = await runDescribed({
    standIn,
    sources,
    service: icypeasProfiles,
    key: ICYPEAS_KEY,
  })
  await expectCounted(database, standIn)
  await expectTitles(
    database,
    'mailed',
    ofKnown((n) => `https://www.linkedin.com/in/found-${n}`),
  )
  await expectNoCall(fillrate, standIn)
})

test.each([
  ['many in a job, whose rows come in pages, by their places', 232, [3, 20]],
  ['a job of one, within the limit of reads', 32, [32, 200]],
] as const)('Icypeas: %s', async (_, people, [least, most]) => {
  const sources: PeopleSource[] = [{ table: 'named', people, inputs: NAMED, title: 'email' }]
  const standIn = await playIcypeas({ hasFaults: true })
  const service = scale(icypeas, { limit: ICYPEAS_LIMIT, after: '400ms' })
  const { database, fillrate } = await runDescribed({ standIn, sources, service, key: ICYPEAS_KEY })
  const reads = standIn.calls.filter(({ endpoint }) => endpoint === ICYPEAS_READS.endpoint).length
  expect(reads).toBeGreaterThanOrEqual(least)
  expect(reads).toBeLessThan(most)
  await expectCounted(database, standIn)
  await expectTitles(database, 'named', ofKnown(EMAIL))
  await expectNoCall(fillrate, standIn)
})

test.each([
  ['single searches', 8, 3, 0],
  // What a file holds no result for may have been billed.
  ['a file of them', 60, 0, 45],
] as const)(
  'Icypeas: %s that ended without credits stop one run, and are made again by the next one with a deposit',
  async (_, people, balance, inDoubt) => {
    const sources: PeopleSource[] = [{ table: 'people', people, inputs: NAMED, title: 'email' }]
    const standIn = await playIcypeas({ balance })
    const service = scale(icypeas, { limit: ICYPEAS_LIMIT, after: '400ms' })
    const options = { standIn, sources, service, key: ICYPEAS_KEY }
    const { database, fillrate } = await openDescribed(options)
    const stopped = await fillrate.run(UNLIMITED)
    expect(stopped).toMatchObject({
      status: 'out_of_credits',
      rows: { failed: 0 },
      lookups: { in_doubt: inDoubt },
    })
    expect(standIn.credits()).toBe(balance)
    await expectCounted(database, standIn)
    standIn.account.deposit(100)
    // Another process, which knows nothing of the searches before.
    const report = await (await openDescribed({ ...options, database })).fillrate.run(UNLIMITED)
    expect(report).toMatchObject({
      status: 'completed',
      rows: { waiting: 0, failed: 0 },
      lookups: { in_doubt: inDoubt },
    })
    await expectTitles(database, 'people', ofKnown(EMAIL))
    await expectCounted(database, standIn)
  },
)
