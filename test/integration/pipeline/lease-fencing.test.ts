import * as recover from '../../../src/pipeline/recover.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as callers from '../../../src/store/rate-limits.ts'
import pino from 'pino'
import { completeJobsFromDeliveries } from '../../../src/store/deliveries.ts'
import { listRunSpend } from '../../../src/store/spend.ts'
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { afterCall, afterResult } from '../../../src/domain/lookup.ts'
import { readLookupTotals } from '../../../src/store/run-progress.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useFreshDatabase } from '../../support/database.ts'
import { BULK } from '../../support/bulk.ts'
import { wantLookups } from '../../support/want-lookups.ts'
import { beginRun } from '../../support/test-run.ts'

const MINUTE = 60_000
const database = useFreshDatabase()
let run: number
const log = pino({ level: 'silent' })

beforeEach(async () => {
  run = await startRun()
})

const startRun = (leaseMs = MINUTE): Promise<number> => beginRun(database.db, { leaseMs })

const want = (...emails: string[]) =>
  inTransaction(database.db, (tx) =>
    wantLookups(
      tx,
      emails.map((email) => ({ kind: 'email' as const, key: email, input: { email } })),
      'contacts',
      run,
      [run],
    ),
  )

const lease = (limit = 10, leaseMs = MINUTE) =>
  leases.leaseLookups(database.db, { run, service: 0, bulk: BULK, limit, token: randomUUID(), leaseMs })

/** @param own the run that recovers */
const recoverFor = (own: number | null) =>
  recover.recoverAbandoned({ db: database.db, log, policy: { attempts: 5 } }, own)

const createJob = (token = randomUUID(), leaseMs = MINUTE) =>
  jobs.createJobs(database.db, {
    run,
    service: 0,
    ids: [randomUUID()],
    least: 50,
    token,
    leaseMs,
    deadlineMs: MINUTE,
  })

const policy = { attempts: 5, refreshAfterMs: MINUTE, retryNotFoundAfterMs: MINUTE }
const found = (lookup: leases.LeasedLookup, title: string): leases.LookupResult => ({
  id: lookup.id,
  token: lookup.token,
  requestedAt: new Date(),
  call: 'billed',
  ...afterCall(lookup, { type: 'found', record: { title }, confidence: 1 }, policy, Date.now(), 0),
})

const stored = () =>
  database.query<{
    key: string
    state: string
    unconfirmed_calls: number
    title: string | null
  }>(`select key, state, unconfirmed_calls, record ->> 'title' as title from fillrate.lookups order by key`)

/** What is reported of the run, whose rows need all lookups. */
const totals = async () => {
  const lookups = await database.query<{ id: number }>('select id::int from fillrate.lookups')
  const needed = lookups.map(({ id }) => id)
  return readLookupTotals(database.db, run, null, needed)
}

test('two workers never lease the same lookup', async () => {
  await want(...Array.from({ length: 50 }, (_, n) => `p${n}@example.com`))
  const leased = (await Promise.all(Array.from({ length: 8 }, () => lease(10)))).flat()
  // Where two meet, the second takes what the first has not locked.
  leased.push(...(await lease(50)))
  expect(leased).toHaveLength(50)
  expect(new Set(leased.map((lookup) => lookup.id)).size).toBe(50)
})

test('a lookup with an expired lease is requested again, and counted as in doubt', async () => {
  await want('a@example.com')
  await lease(1, 0)
  expect(await recoverFor(run)).toMatchObject({ expiredLeases: 1 })
  expect(await stored()).toMatchObject([{ state: 'pending', unconfirmed_calls: 1 }])
  expect(await totals()).toMatchObject({ in_doubt: 1 })
})

test('what is leased is in doubt until it is answered or released, also what was leased with answers', async () => {
  await want('a@example.com', 'b@example.com', 'c@example.com', 'd@example.com')
  const [a, b] = await lease(2)
  if (!a || !b) throw new Error('two should have been leased')
  const next = { run, service: 0, bulk: BULK, limit: 1, token: randomUUID(), leaseMs: MINUTE }
  const { leased, unstored } = await leases.completeLookups(database.db, [found(a, 'answered')], next)
  expect({ leased, unstored }).toEqual({
    leased: [{ ...b, id: 3, input: { email: 'c@example.com' }, token: next.token }],
    unstored: [],
  })
  const [d] = await lease(1)
  if (!d) throw new Error('the last should have been leased')
  await leases.releaseLookups(database.db, [d])
  await expireLeases()
  expect(await recoverFor(run)).toMatchObject({ expiredLeases: 2 })
  expect(await stored()).toMatchObject([
    { key: 'a@example.com', state: 'found', unconfirmed_calls: 0 },
    { key: 'b@example.com', state: 'pending', unconfirmed_calls: 1 },
    { key: 'c@example.com', state: 'pending', unconfirmed_calls: 1 },
    { key: 'd@example.com', state: 'pending', unconfirmed_calls: 0 },
  ])
  expect(await totals()).toMatchObject({ requested: 3, in_doubt: 2 })
})

const expireLeases = (): Promise<unknown> =>
  database.query(`update fillrate.lookups set leased_until = now() - interval '1 s'`)

test('a lookup is released under its own token only, not under that of another in the same batch', async () => {
  await want('a@example.com', 'b@example.com')
  const [first] = await lease(1, 0)
  await recoverFor(run)
  const again = await lease(2)
  const other = again.find((lookup) => lookup.id !== first?.id)
  if (!first || !other) throw new Error('one should have been leased twice')
  await leases.releaseLookups(database.db, [first, other])
  expect(await stored()).toMatchObject([
    { key: 'a@example.com', state: 'leased' },
    { key: 'b@example.com', state: 'pending' },
  ])
})

test('the record of a lost lease is stored if there is none, and never replaces a newer one', async () => {
  await want('a@example.com', 'b@example.com')
  const [a, b] = await lease(2, 0)
  await recoverFor(run)
  const again = await lease(2)
  const newer = again.find((lookup) => lookup.id === b?.id)
  if (!a || !b || !newer) throw new Error('both lookups should have been leased twice')
  await leases.completeLookups(database.db, [found(newer, 'the newer one')])

  await leases.completeLookups(database.db, [found(a, 'late, but paid for'), found(b, 'late')])
  expect(await stored()).toMatchObject([
    { key: 'a@example.com', state: 'found', title: 'late, but paid for' },
    { key: 'b@example.com', state: 'found', title: 'the newer one' },
  ])
  // The second call of `a` is on the wire: nothing of its answer is stored, and it may be billed.
  const second = again.find((lookup) => lookup.id === a.id)
  if (second) await leases.completeLookups(database.db, [found(second, 'paid twice')])
  expect(await listRunSpend(database.db, [run])).toMatchObject([{ lookups: 1, in_doubt: 3 }])
})

test('a call on the wire is in doubt when a late delivery of an old job brings the record', async () => {
  await want(...Array.from({ length: 60 }, (_, n) => `p${n}@example.com`))
  const [job] = await createJob()
  await database.query(
    `update fillrate.jobs set state = 'submitted', submitted_at = now(), lease_token = null, leased_until = null, deadline_at = now()`,
  )
  await recoverFor(run)
  const [called] = await lease(1)
  if (!job || !called) throw new Error('a job should have expired, and its inputs be requested singly')
  const answer = { type: 'found', record: { title: 'late' }, confidence: 1 } as const
  const fields = afterResult(answer, policy, Date.now())
  const late = {
    ...fields,
    id: called.id,
    requestedAt: new Date(),
    job: job.id,
    isOpen: false,
    reserved: null,
  }
  await inTransaction(database.db, (tx) => leases.completeFromDelivery(tx, [late]))
  expect((await leases.completeLookups(database.db, [found(called, 'paid twice')])).unstored).toHaveLength(1)
  const spend = await listRunSpend(database.db, [run])
  expect(spend.find(({ endpoint }) => endpoint === 'person')).toMatchObject({ lookups: 0, in_doubt: 1 })
})

test('an extended lease does not expire; an expired one cannot be extended', async () => {
  await want('a@example.com')
  const [first] = await lease(1, 2_000)
  if (!first) throw new Error('nothing was leased')
  expect(await leases.extendLookupLeases(database.db, [first.token], MINUTE)).toEqual(new Set([first.token]))
  expect(await recoverFor(run)).toMatchObject({ expiredLeases: 0 })
  await expireLeases()
  expect(await leases.extendLookupLeases(database.db, [first.token], MINUTE)).toEqual(new Set())
  await recoverFor(run)
  expect(await leases.extendLookupLeases(database.db, [first.token], MINUTE)).toEqual(new Set())
})

test('what a clock that was a day ahead has leased is over', async () => {
  const { db } = database
  await want(...Array.from({ length: 60 }, (_, n) => `p${n}@example.com`))
  await callers.acquireLease(db, 'scope', randomUUID(), 'before', MINUTE)
  await lease(1)
  await createJob(randomUUID(), MINUTE)
  for (const table of ['leases', 'lookups', 'jobs', 'runs'])
    await database.query(
      `update fillrate.${table} set leased_until = now() + interval '1 day' where lease_token is not null`,
    )
  expect(await callers.acquireLease(db, 'scope', randomUUID(), 'after', MINUTE)).toBe(true)
  expect(await recoverFor(null)).toMatchObject({ expiredLeases: 1, doubtfulJobs: 1, interruptedRuns: 1 })
})

test('extending waits for no lock of a lookup, and extends it the next time', async () => {
  await want('a@example.com', 'b@example.com')
  const [a] = await lease(2, MINUTE)
  if (!a) throw new Error('both should have been leased')
  const other = await database.pool.connect()
  try {
    await other.query('begin')
    await other.query('select from fillrate.lookups where id = $1 for update', [a.id])
    expect(await leases.extendLookupLeases(database.db, [a.token], 10 * MINUTE)).toEqual(new Set())
  } finally {
    await other.query('rollback')
    other.release()
  }
  expect(await leases.extendLookupLeases(database.db, [a.token], 10 * MINUTE)).toEqual(new Set([a.token]))
})

test('a lookup of another running run is not taken over; that of a dead run is', async () => {
  await want('a@example.com')
  const other = run
  run = await startRun()
  expect(
    await inTransaction(database.db, (tx) => wantLookups(tx, [aWanted], 'contacts', run, [other, run])),
  ).toMatchObject([{ claimed: false }])
  expect(
    await inTransaction(database.db, (tx) => wantLookups(tx, [aWanted], 'contacts', run, [run])),
  ).toMatchObject([{ claimed: true }])
})
const aWanted = { kind: 'email' as const, key: 'a@example.com', input: { email: 'a@example.com' } }

test('a job whose process died between the post and the 202 is in doubt, and is not posted again', async () => {
  await want(...Array.from({ length: 60 }, (_, n) => `p${n}@example.com`))
  const [job] = await createJob(randomUUID(), 0)
  expect(job?.emails).toHaveLength(60)
  expect(await recoverFor(run)).toMatchObject({ doubtfulJobs: 1 })
  expect(
    await jobs.leaseJobsForRetry(database.db, {
      run,
      service: 0,
      limit: 10,
      token: randomUUID(),
      leaseMs: MINUTE,
    }),
  ).toEqual([])
  await database.query(`update fillrate.jobs set deadline_at = now()`)
  expect(await recoverFor(run)).toMatchObject({ expiredJobs: 1 })
  expect(
    await leases.leaseLookups(database.db, {
      run,
      service: 0,
      bulk: [{ kinds: ['email'], singly: false }],
      limit: 100,
      token: randomUUID(),
      leaseMs: MINUTE,
    }),
  ).toHaveLength(60)
})

test.each([
  ['lost', { call: 'unbilled' as const, state: 'in_doubt' as const, mayBeBilled: false }],
  ['a refusal', { call: 'retried' as const, state: 'submitting' as const, mayBeBilled: true }],
])('the call of a job counts, if its results came before its answer, which was %s', async (_, answer) => {
  await want(...Array.from({ length: 60 }, (_, n) => `p${n}@example.com`))
  const token = randomUUID()
  const [job] = await createJob(token)
  const id = job?.id ?? ''
  const delivered = { id, jobId: null, state: 'completed' as const, reason: null, isOpen: false, graceMs: 0 }
  await inTransaction(database.db, (tx) => completeJobsFromDeliveries(tx, [], [delivered]))
  const unchanged = { reason: null, attempts: 1, jobId: null, requestIds: null, notBefore: null }
  await jobs.recordJobSubmissions(database.db, [
    { id, token, ...answer, ...unchanged, submittedAt: null, finishedAt: null },
  ])
  expect(await listRunSpend(database.db, [run])).toMatchObject([{ endpoint: 'bulk', calls: 1, in_doubt: 0 }])
  const { rows } = await database.pool.query(`select state, lease_token from fillrate.jobs`)
  expect(rows).toEqual([{ state: 'completed', lease_token: null }])
})

test('a job that was certainly not accepted is cancelled when its run is dead, and its inputs are released', async () => {
  await want(...Array.from({ length: 60 }, (_, n) => `p${n}@example.com`))
  await createJob()
  await database.query(
    `update fillrate.jobs set lease_token = null, leased_until = null, not_before = now(), reason = 'unauthorized (401)'`,
  )
  expect(await recoverFor(run)).toMatchObject({ dissolvedJobs: 0 })
  await database.query(`update fillrate.runs set state = 'failed', finished_at = now()`)
  expect(await recoverFor(null)).toMatchObject({ dissolvedJobs: 1 })
  const rows = await database.query('select distinct state, sync_only from fillrate.lookups')
  expect(rows).toEqual([{ state: 'pending', sync_only: false }])
})

test('a run of a dead process is interrupted by any other process, never by itself', async () => {
  const dead = await startRun(0)
  expect(await recoverFor(dead)).toMatchObject({ interruptedRuns: 0 })
  expect(await recoverFor(run)).toMatchObject({ interruptedRuns: 1 })
})

test('one process is the leader; another follows when the lease expires, or at once when it resigns', async () => {
  const { db } = database
  const [one, two] = [randomUUID(), randomUUID()]
  expect(await callers.acquireLease(db, 'key', one, 'one', MINUTE)).toBe(true)
  expect(await callers.acquireLease(db, 'key', two, 'two', MINUTE)).toBe(false)
  expect(await callers.acquireLease(db, 'key', one, 'one', 0)).toBe(true)
  expect(await callers.acquireLease(db, 'key', two, 'two', MINUTE)).toBe(true)
  expect(await callers.acquireLease(db, 'key', one, 'one', MINUTE)).toBe(false)
  await callers.releaseLease(db, 'key', one)
  expect(
    await database.query(`select owner from fillrate.leases where scope = 'key' and leased_until > now()`),
  ).toEqual([{ owner: 'two' }])
  await callers.releaseLease(db, 'key', two)
  expect(await callers.acquireLease(db, 'key', one, 'one', MINUTE)).toBe(true)
})

test('of many concurrent candidates, one becomes the leader', async () => {
  const won = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      callers.acquireLease(database.db, 'key', randomUUID(), `p${n}`, MINUTE),
    ),
  )
  expect(won.filter(Boolean)).toHaveLength(1)
})
