import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import type { LookupKind } from '../../../src/domain/identifiers/kind.ts'
import { readBudgetUsage, readProspect } from '../../../src/store/budgets.ts'
import { createJobs } from '../../../src/store/jobs.ts'
import { completeLookups, leaseLookups, releaseByToken } from '../../../src/store/lookup-leases.ts'
import { releaseExpiredLookups, upsertLookups } from '../../../src/store/lookups.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'

// What is leased, or put into jobs, is never more than the budget pays, whoever leases at the same moment.

const database = useTestDatabase()
const RUN = 1
const unit = { person: 1, company: 1 }
const flat = { email: 1, linkedin_url: 1, name_company: 1, domain: 1 }
const bound = (limit: number | null, own: number | null = null, most: object = flat) => ({
  isInCredits: false,
  limit,
  services: Object.fromEntries([0, 1].map((service) => [service, { own, unit, most }])),
})

/** A run, and its successor in the same budget. */
async function begin(of: object): Promise<void> {
  await database.query(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, budget_name, bound)
     select 'schedule', '{a,b}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour', 'night', $1
       from generate_series(1, 2)`,
    [JSON.stringify(of)],
  )
}
beforeEach(() =>
  database.query(`
    truncate fillrate.lookups, fillrate.jobs, fillrate.runs, fillrate.rows, fillrate.spend restart identity cascade`),
)

const want = (source: string, count: number, { run = RUN, service = 0, kind = 'email' as LookupKind } = {}) =>
  inTransaction(database.db, (tx) =>
    upsertLookups(
      tx,
      Array.from({ length: count }, (_, n) => ({ kind, key: `${source}${run}${n}`, input: {} })),
      source,
      run,
      [1, 2],
      service,
    ),
  )
const lease = (limit: number, { run = RUN, service = 0, token = randomUUID() as string } = {}) =>
  leaseLookups(database.db, { run, service, limit, token, leaseMs: 60_000, isBounded: true })
const countLeased = () => database.count(`fillrate.lookups where state in ('leased', 'submitted')`)

test('two leaders of one run, and those of its successor, lease no more than one budget pays', async () => {
  await begin(bound(25))
  for (const run of [1, 2]) for (const service of [0, 1]) await want('a', 40, { run, service })
  const leaders = [1, 2].flatMap((run) => [0, 1].map((service) => ({ run, service })))
  const leased = await Promise.all(Array.from({ length: 24 }, (_, n) => lease(3, leaders[n % 4])))
  expect(leased.flat()).toHaveLength(25)
  expect(await countLeased()).toBe(25)
})

test('jobs are cut to what a budget pays, also where that is less than makes a job', async () => {
  await begin(bound(7))
  await want('a', 40)
  const ids = [randomUUID(), randomUUID()]
  const job = { run: RUN, service: 0, ids, least: 5, token: randomUUID(), leaseMs: 1, deadlineMs: 1, size: 5 }
  const made = await createJobs(database.db, { ...job, isBounded: true })
  expect(made.map(({ inputs }) => inputs.length)).toEqual([5, 2])
  expect(await lease(5)).toEqual([])
  expect(await readProspect(database.db, { run: RUN, service: 0 })).toBe('calls')
})

test('what an answer costs less is left, what is released was never taken, and what is lost stays', async () => {
  await begin(bound(10, null, { ...flat, email: 5 }))
  await want('a', 40)
  const of = { run: RUN, service: 0 }
  const leased = await lease(40)
  expect(leased).toHaveLength(2)
  expect(await lease(40)).toEqual([])
  const [first, second] = leased as [(typeof leased)[number], (typeof leased)[number]]
  const at = { requestedAt: new Date(), resolvedAt: new Date(), refreshAt: new Date() }
  const missed = { state: 'not_found', reason: null, attempts: 1, notBefore: null, record: null } as const
  const { id, token } = first
  await completeLookups(database.db, [
    { id, token, ...missed, confidence: null, ...at, call: 'billed', credits: 0 },
  ])
  expect((await readBudgetUsage(database.db, of)).spent).toBe(5 + 38 * 5)
  const third = randomUUID()
  expect(await lease(40, { token: third })).toHaveLength(1)
  await releaseByToken(database.db, third)
  expect(await lease(40)).toHaveLength(1)
  // Its process is dead: it may have been billed.
  await database.query(
    `update fillrate.lookups set leased_until = now() - interval '1 s' where lease_token = '${second.token}'`,
  )
  expect(await releaseExpiredLookups(database.db, 100)).toBeGreaterThan(0)
  expect(await database.query('select sum(credits_in_doubt)::int as doubt from fillrate.spend')).toEqual([
    { doubt: 5 },
  ])
  expect(await lease(40)).toEqual([])
})

test('the budget of a service is a part of it, and a dearer kind does not keep a cheaper one back', async () => {
  await begin(bound(100, 9, { ...flat, email: 7 }))
  await want('a', 5)
  await want('b', 5, { kind: 'domain' })
  // The next lease takes what the first could not pay.
  const leased = [...(await lease(10)), ...(await lease(10))]
  expect(leased.map(({ kind }) => kind)).toEqual(['email', 'domain', 'domain'])
  expect(await lease(10)).toEqual([])
  await want('b', 5, { service: 1, run: 2, kind: 'domain' })
  expect(await lease(10, { service: 1, run: 2 })).toHaveLength(5)
})
