import hunter from '../../../examples/services/hunter.ts'
import leadiq from '../../../examples/services/leadiq.ts'
import snovFinder from '../../../examples/services/snov-finder.ts'
import snov from '../../../examples/services/snov.ts'
import dropcontact from '../../../examples/services/dropcontact.ts'
import icypeasProfiles from '../../../examples/services/icypeas-profiles.ts'
import icypeas from '../../../examples/services/icypeas.ts'
import lusha from '../../../examples/services/lusha.ts'
import prospeo from '../../../examples/services/prospeo.ts'
import { expect, test } from 'vitest'
import type { StandIn } from '../../support/described-service.ts'
import {
  countKnown,
  countSpend,
  expectBilledAsCounted,
  expectNoCall,
  MAILED,
  NAMED,
  openDescribed,
  runDescribed,
  scale,
  UNLIMITED,
  isKnownNumber,
  type PeopleSource,
} from '../../support/described-runs.ts'
import { HUNTER_KEY, HUNTER_LIMIT, HUNTER_REJECTED, playHunter } from '../../support/stand-ins/hunter.ts'
import { LEADIQ_KEY, LEADIQ_LIMIT, playLeadiq } from '../../support/stand-ins/leadiq.ts'
import { playSnov, SNOV_CLIENT, SNOV_LIMIT } from '../../support/stand-ins/snov.ts'
import type { TestDatabase } from '../../support/database.ts'
import { DROPCONTACT_KEY, DROPCONTACT_LIMIT, playDropcontact } from '../../support/stand-ins/dropcontact.ts'
import { ICYPEAS_KEY, ICYPEAS_LIMIT, ICYPEAS_READS, playIcypeas } from '../../support/stand-ins/icypeas.ts'
import { isRestricted, LUSHA_KEY, LUSHA_LIMIT, playLusha } from '../../support/stand-ins/lusha.ts'
import { isInvalid, playProspeo, PROSPEO_KEY } from '../../support/stand-ins/prospeo.ts'

// Services that people pay for, described from their documentation, against stand-ins with their documented limits, bills and
// faults: 5% of the calls get a 5xx, and 5% an error in a 200.

/** Calls that end out of order, and near the ends of windows. */
const LATENCY_MS = [20, 200] as const

/** One call in twenty had each fault, but for those of the last twenty. */
function expectFaults(standIn: StandIn): void {
  const least = Math.floor(standIn.calls.length / 20)
  const { failed, erred } = standIn.faults()
  expect(Math.min(failed, erred)).toBeGreaterThanOrEqual(least)
}

test('Hunter: two windows for each endpoint, 403 for too many calls, half of the people by profile', async () => {
  const sources: PeopleSource[] = [
    { table: 'named', people: 40, inputs: NAMED, title: 'position' },
    { table: 'profiled', people: 40, inputs: { linkedin_url: 't.profile' }, title: 'email' },
    { table: 'firms', people: 40, inputs: { domain: 't.domain' }, title: 'name', kind: 'company' },
  ]
  const standIn = await playHunter({ hasFaults: true, latencyMs: LATENCY_MS })
  const limit = { person: HUNTER_LIMIT, company: HUNTER_LIMIT }
  const { database, fillrate, report } = await runDescribed({
    standIn,
    sources,
    service: scale(hunter, { limit }),
    key: HUNTER_KEY,
  })
  expect(report.rows.rejected).toBe(2)
  expectFaults(standIn)
  await expectBilledAsCounted(database, standIn)
  expect(standIn.credits()).toBe(3 * countKnown(40) - 2)
  const titles = await database.query<{ title: string }>(
    `select title from named where id <> ${HUNTER_REJECTED} and title is distinct from 'Analyst ' || id`,
  )
  expect(titles).toEqual(Array.from({ length: 10 }, () => ({ title: null })))
  await expectNoCall(fillrate, standIn)
})

test('LeadIQ: GraphQL, every error in a 200, billed in parts of a credit by what people have', async () => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 30, inputs: MAILED, title: 'position.title' },
    { table: 'named', people: 20, inputs: NAMED, title: 'workEmail.value' },
    { table: 'firms', people: 12, inputs: { domain: 't.domain' }, title: 'industry', kind: 'company' },
  ]
  const standIn = await playLeadiq({ hasFaults: true, latencyMs: LATENCY_MS })
  const { database, fillrate, report } = await runDescribed({
    standIn,
    sources,
    service: scale(leadiq, { limit: LEADIQ_LIMIT }),
    key: LEADIQ_KEY,
  })
  expect(report.rows.rejected).toBe(0)
  expectFaults(standIn)
  await expectBilledAsCounted(database, standIn)
  expect(await database.count('mailed where title is not null')).toBe(countKnown(30))
  // Of those who are known, one in three has no email.
  expect(await database.count(`named where title = 'p' || id || '@found.example'`)).toBe(
    Array.from({ length: 20 }, (_, n) => n + 1).filter((n) => n % 4 !== 0 && n % 3 !== 0).length,
  )
  await expectNoCall(fillrate, standIn)
})

test('Snov.io: a client whose tokens end, forms, and an error in a 200 that is no miss', async () => {
  const sources: PeopleSource[] = [
    { table: 'mailed', people: 50, inputs: MAILED, title: 'currentJob.position' },
  ]
  const standIn = await playSnov({ hasFaults: true, tokenSeconds: 5 })
  const { database, fillrate } = await runDescribed({
    standIn,
    sources,
    service: scale(snov, { limit: SNOV_LIMIT }),
    key: SNOV_CLIENT,
  })
  expect(standIn.credits()).toBe(countKnown(50))
  const { credits, callsInDoubt } = await countSpend(database)
  // What the error in the 200 has cost, its form does not say: it is in doubt, and was not billed here.
  expect({ credits, again: standIn.billedAgain().times }).toEqual({ credits: countKnown(50), again: 0 })
  expectFaults(standIn)
  expect(callsInDoubt).toBe(standIn.faults().erred)
  expect(await database.count(`mailed where title = 'Analyst ' || id`)).toBe(countKnown(50))
  await expectNoCall(fillrate, standIn)
})

test('Snov.io finder: tasks of one person, polled within the same limit', async () => {
  const sources: PeopleSource[] = [{ table: 'named', people: 24, inputs: NAMED, title: 'email' }]
  const standIn = await playSnov({ hasFaults: true })
  const { database, fillrate } = await runDescribed({
    standIn,
    sources,
    service: scale(snovFinder, { limit: SNOV_LIMIT, after: '200ms' }),
    key: SNOV_CLIENT,
  })
  expectFaults(standIn)
  // Some have two emails, and cost twice as much, which the results show.
  expect(standIn.credits()).toBeGreaterThan(countKnown(24))
  expect((await countSpend(database)).credits).toBe(standIn.credits())
  expect(standIn.billedAgain().times).toBe(0)
  expect(await database.count(`named where title = 'p' || id || '@found.example'`)).toBe(countKnown(24))
  await expectNoCall(fillrate, standIn)
})

test('Snov.io finder: a poll without credits stops the run', async () => {
  const sources: PeopleSource[] = [{ table: 'people', people: 8, inputs: NAMED, title: 'email' }]
  const standIn = await playSnov({ balance: 3 })
  const service = scale(snovFinder, { limit: SNOV_LIMIT, after: '200ms' })
  const { fillrate } = await openDescribed({ standIn, sources, key: SNOV_CLIENT, service })
  // It waits for tasks that are paid.
  const report = await fillrate.run({ ...UNLIMITED, waitMs: 3_000 })
  expect(report).toMatchObject({ status: 'out_of_credits', rows: { failed: 0 } })
  expect(standIn.credits()).toBe(3)
})

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
  (titleOf: (n: number) => string, isRefused: (n: number) => boolean = () => false) =>
  (n: number): string | null =>
    isKnownNumber(n) && !isRefused(n) ? titleOf(n) : null

/** What was billed is what was counted, and nothing was billed twice. */
async function expectCounted(database: TestDatabase, standIn: StandIn): Promise<void> {
  const { credits } = await countSpend(database)
  expect({ billed: standIn.credits(), again: standIn.billedAgain().times }).toEqual({
    billed: credits,
    again: 0,
  })
}

/** Calls met both kinds of fault. */
function expectSomeFaults(standIn: StandIn): void {
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
  expectSomeFaults(standIn)
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
  expectSomeFaults(standIn)
  await expectCounted(database, standIn)
  await expectTitles(database, 'mailed', ofKnown(ANALYST, isInvalid))
  await expectTitles(database, 'named', ofKnown(WORK, isInvalid))
  await expectTitles(database, 'firms', ofKnown(INDUSTRY, isInvalid))
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
  expectSomeFaults(standIn)
  // A person cost one, half of the most, and a company two.
  expect(standIn.credits()).toBe(countKnown(240) + countKnown(40) - 6 + 2 * countKnown(40))
  await expectCounted(database, standIn)
  await expectTitles(database, 'mailed', ofKnown(ANALYST, isRestricted))
  await expectTitles(database, 'named', ofKnown(WORK, isRestricted))
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
  expectSomeFaults(standIn)
  await expectCounted(database, standIn)
  await expectTitles(database, 'mailed', ofKnown(ANALYST, isRefused))
  await expectTitles(database, 'named', ofKnown(ANALYST, isRefused))
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
