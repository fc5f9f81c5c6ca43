import { expect, test } from 'vitest'
import hunter from '../../../examples/services/hunter.ts'
import leadiq from '../../../examples/services/leadiq.ts'
import snovFinder from '../../../examples/services/snov-finder.ts'
import snov from '../../../examples/services/snov.ts'
import type { StandIn } from '../../support/described-service.ts'
import {
  countKnown,
  countSpend,
  expectBilledAsCounted,
  expectNoCall,
  MAILED,
  NAMED,
  openDescribed,
  type PeopleSource,
  runDescribed,
  scale,
  UNLIMITED,
} from '../../support/described-runs.ts'
import { HUNTER_KEY, HUNTER_LIMIT, HUNTER_REJECTED, playHunter } from '../../support/stand-ins/hunter.ts'
import { LEADIQ_KEY, LEADIQ_LIMIT, playLeadiq } from '../../support/stand-ins/leadiq.ts'
import { playSnov, SNOV_CLIENT, SNOV_LIMIT } from '../../support/stand-ins/snov.ts'

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
