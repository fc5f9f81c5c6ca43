import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import pino from 'pino'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { cancelJob } from '../../../src/actions/cancel.ts'
import { createWebhookReceiver, type WebhookReceipt } from '../../../src/pipeline/receive.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useFreshHarness } from '../../support/harness.ts'

const log = pino({ level: 'silent' })
const harness = useFreshHarness({
  config: { ...crmConfig, bulk: { minimum: 20, grace: '0s' } },
  sandbox: { notFoundShare: 0, missingShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 60),
})

interface StoredJob {
  readonly id: string
  readonly job_id: string | null
  readonly state: string
  readonly reason: string | null
}
const job = async (): Promise<StoredJob> => {
  const rows = await harness.query<StoredJob>(
    'select key as id, job_id, state, reason from fillrate.jobs order by created_at',
  )
  if (!rows[0]) throw new Error('there is no job')
  return rows[0]
}
/** A run whose job gets no delivery: the service lost it, or no receiver was running. */
const submitOnly = async (): Promise<StoredJob> => {
  harness.sandbox.configure({ faults: { lost: 1 } })
  await harness.run({ route: 'bulk', waitMs: 0 })
  harness.sandbox.configure({ faults: {}, plan: null })
  return job()
}
const emails = async (): Promise<string[]> =>
  (await harness.query<{ key: string }>('select key from fillrate.lookups order by id')).map((row) => row.key)
const deliver = (changes: object, path: string | null): Promise<WebhookReceipt> => {
  const body = Buffer.from(
    JSON.stringify({ event_id: randomUUID(), status: 'completed', results: [], ...changes }),
  )
  const secret = harness.sandbox.webhookSecret
  return createWebhookReceiver(
    harness.database.db,
    [secret],
    BUILT_IN_SERVICE,
    async () => null,
  )({
    body,
    signature: signWebhook(body, secret),
    job: path,
  })
}
const resultsFor = (list: readonly string[]): object[] =>
  list.map((email) => ({ request_id: email, data: { email, title: `T ${email}`, confidence: 0.9 } }))
const passDeadline = () =>
  harness.database.pool.query(
    `update fillrate.jobs set deadline_at = now() - interval '1 s' where finished_at is null`,
  )
const stored = (): Promise<number> => harness.count(`fillrate.lookups where record is not null`)

test('a delivery posted twice at once, to two receivers, is settled once', async () => {
  const { id, job_id: jobId } = await submitOnly()
  const event = { event_id: 'one-event', job_id: jobId, results: resultsFor(await emails()) }
  const receipts = await Promise.all([deliver(event, id), deliver(event, id)])
  expect(receipts.sort()).toEqual(['accepted', 'duplicate'])
  const report = await harness.run()
  expect(report).toMatchObject({ rows: { waiting: 0 }, requests: { person: 0 } })
  expect(await job()).toMatchObject({ state: 'completed', reason: null })
})

test('a delivery that arrives before the 202 of its job waits for it', async () => {
  harness.sandbox.configure({ faults: { early: 1 } })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ rows: { waiting: 0 }, requests: { person: 0 }, jobs: { completed: 1 } })
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test('without a receiver, inputs are requested one by one at the deadline, within the budget, and counted', async () => {
  await submitOnly()
  await passDeadline()
  const limited = await harness.run({ budget: 10 })
  expect(limited).toMatchObject({ status: 'budget_reached', requests: { person: 10 } })
  expect(await job()).toMatchObject({ state: 'expired', reason: 'no delivery before the deadline' })
  const rest = await harness.run()
  expect(rest.rows.waiting).toBe(0)
  // Only what was requested again may have been billed twice.
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(inputs.max_requested).toBe(2)
  expect(inputs.requested_singly).toBe((await emails()).length)
})

test('a delivery after the deadline completes what is still open, and nothing is written twice', async () => {
  const { id, job_id: jobId } = await submitOnly()
  await passDeadline()
  await harness.run({ budget: 5 })
  const list = await emails()
  const late = await deliver({ job_id: jobId, results: resultsFor(list) }, id)
  expect(late).toBe('accepted')
  const report = await harness.run()
  expect(report).toMatchObject({ rows: { waiting: 0 }, requests: { person: 0 } })
  expect(await stored()).toBe(list.length)
  expect(await job()).toMatchObject({ state: 'completed' })
  const rows = await harness.query('select 1 from fillrate.changes group by key having count(*) > 1')
  expect(rows).toEqual([])
})

test('a record that arrives after its lookup was not found is stored, and its rows are written without a call', async () => {
  const { id, job_id: jobId } = await submitOnly()
  await passDeadline()
  harness.sandbox.configure({ notFoundShare: 1 })
  const missed = await harness.run()
  expect(missed.rows.not_found).toBeGreaterThan(50)
  await deliver({ job_id: jobId, results: resultsFor(await emails()) }, id)
  const calls = harness.calls()
  await harness.run()
  const report = await harness.run()
  expect(report.rows.waiting).toBe(0)
  expect(harness.calls()).toBe(calls)
  const rows = await harness.query<{ state: string }>(`select distinct state from fillrate.rows`)
  // A row with a typed title has nothing left to write.
  expect(rows.map((row) => row.state).sort()).toEqual(['enriched', 'unchanged'])
})

test('a delivery for a job of another database is stored as an orphan and changes nothing', async () => {
  const { state } = await submitOnly()
  await deliver({ job_id: 'of-another', results: resultsFor(await emails()) }, randomUUID())
  await harness.run({ waitMs: 0 })
  expect(await stored()).toBe(0)
  expect((await job()).state).toBe(state)
  const rows = await harness.query('select state, reason from fillrate.deliveries')
  expect(rows).toEqual([{ state: 'orphaned', reason: 'no job of its service has this id' }])
})

test('a job can be expired by hand: its inputs are requested one by one, and it is never posted again', async () => {
  const { id } = await submitOnly()
  const { db } = harness.database
  const open = (await emails()).length
  await deliver({ results: resultsFor(await emails()) }, id)
  const kept = { state: null, message: 'its results are stored, and the next run uses them' }
  expect(await cancelJob({ db, log }, id)).toMatchObject(kept)
  await harness.query('delete from fillrate.deliveries')
  expect(await cancelJob({ db, log }, id)).toMatchObject({
    state: 'expired',
    requeued: open,
    possibly_billed: open,
  })
  expect(await cancelJob({ db, log }, id)).toMatchObject({
    state: null,
    message: 'it has already finished',
  })
  expect(await cancelJob({ db, log }, 'unknown')).toBeNull()
  const report = await harness.run({ route: 'sync' })
  expect(report).toMatchObject({ rows: { waiting: 0 }, requests: { bulk: 0, person: open } })
})
