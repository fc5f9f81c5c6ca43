import { randomBytes, randomUUID } from 'node:crypto'
import pino from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createService, type Service } from '../../../src/domain/service/service.ts'
import {
  createWebhookReceiver,
  toFetchedDelivery,
  type WebhookReceipt,
} from '../../../src/pipeline/receive.ts'
import * as recover from '../../../src/pipeline/recover.ts'
import * as settle from '../../../src/pipeline/settle.ts'
import { closeDeliveriesSql, insertDeliveries, requeueUnread } from '../../../src/store/deliveries.ts'
import { createFromAsyncAnswer } from '../../../src/store/jobs.ts'
import { listRunning } from '../../../src/store/runs.ts'
import { insertSuppressions } from '../../../src/store/suppressions.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { POLICY } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'

const SECRET = 'secret'
const log = pino({ level: 'silent' })
const policy = { ...POLICY, bulk: { ...POLICY.bulk, graceMs: 300_000 } }
const database = useTestDatabase()
beforeEach(() =>
  database.query('truncate fillrate.deliveries, fillrate.lookups, fillrate.jobs, fillrate.services cascade'),
)

const EMAILS = ['a@x.example', 'b@x.example', 'c@x.example']

/** A job that the service has accepted. */
async function submittedJob(
  jobId: string | null,
  emails: readonly string[] = EMAILS,
  service = 0,
): Promise<string> {
  const id = randomUUID()
  await database.query(
    `with made as (
       insert into fillrate.lookups (kind, key, input, state, service_id)
       select 'email', email, jsonb_build_object('email', email), 'pending', $4 from unnest($2::text[]) email
       returning id
     )
     insert into fillrate.jobs (key, job_id, service_id, state, size, lookup_ids, submitted_at, deadline_at)
     select $1, $3, $4, 'submitted', count(*), array_agg(id order by id), now(), now() + interval '6 h' from made`,
    [id, emails, jobId, service],
  )
  await database.query(
    `update fillrate.lookups set state = 'submitted', job_key = $1 where key = any($2::text[]) and service_id = $3`,
    [id, emails, service],
  )
  return id
}

const deliver = (
  changes: object,
  path: string | null,
  service: Service = BUILT_IN_SERVICE,
  from: { readonly number: number | null; readonly name: string | null } = { number: null, name: null },
): Promise<WebhookReceipt> => {
  const event = { event_id: randomUUID(), job_id: 'j', status: 'completed', results: [], ...changes }
  const body = Buffer.from(JSON.stringify(event))
  const signature = signWebhook(body, SECRET)
  return createWebhookReceiver(
    database.db,
    [SECRET],
    service,
    async () => from.number,
    from.name,
  )({ body, signature, job: path })
}
const resultsFor = (list: readonly string[]): object[] =>
  list.map((email) => ({ request_id: email, data: { email, title: `T ${email}`, confidence: 0.9 } }))
const settleAll = async (adapter: Service = BUILT_IN_SERVICE): Promise<number> => {
  let ticks = 0
  const deps = { db: database.db, log, policy, now: Date.now, adapter }
  while ((await settle.settleReceived(deps)).deliveries > 0) ticks++
  return ticks
}
const recoverOnce = () => recover.recoverAbandoned({ db: database.db, log, policy }, [])
const passGrace = () => database.pool.query(`update fillrate.jobs set release_at = now() - interval '1 s'`)

/** `a found: T a@x.example` … */
const lookups = async (): Promise<string[]> =>
  (
    await database.query<{ summary: string }>(
      `select split_part(key, '@', 1) || ' ' || state || coalesce(': ' || (record ->> 'title'), '')
                || case when unconfirmed_calls > 0 then ', in doubt ' || unconfirmed_calls else '' end as summary
         from fillrate.lookups order by id`,
    )
  ).map((row) => row.summary)
const job = async (id: string): Promise<object> =>
  (
    await database.query<{ state: string; reason: string | null }>(
      'select state, reason from fillrate.jobs where key = $1',
      [id],
    )
  )[0] ?? {}
const deliveries = (): Promise<object[]> =>
  database.query<{ state: string; reason: string | null; quarantined_results: number }>(
    'select state, reason, quarantined_results from fillrate.deliveries order by received_at, event_id',
  )

describe('two services that number their jobs alike', () => {
  const A = { number: 0, name: 'a' }
  const B = { number: 1, name: 'b' }
  beforeEach(() =>
    database.query(`insert into fillrate.services (id, host, name) values (0, 'a', 'a'), (1, 'b', 'b')`),
  )
  const eventOf = (emails: readonly string[]): object => ({ event_id: 'e1', results: resultsFor(emails) })

  test('what one delivers at its own address finds no job of the other, by whatever name', async () => {
    const id = await submittedJob('j', EMAILS, A.number)
    for (const path of [id, null]) {
      await deliver(eventOf(EMAILS), path, BUILT_IN_SERVICE, B)
      await deliver(eventOf(EMAILS), path, BUILT_IN_SERVICE, { number: null, name: 'never called' })
    }
    await settleAll()
    await recoverOnce()
    await settleAll()
    expect(await lookups()).toEqual(['a submitted', 'b submitted', 'c submitted'])
    expect(await job(id)).toEqual({ state: 'submitted', reason: null })
    const orphan = { state: 'orphaned', reason: 'no job of its service has this id', quarantined_results: 0 }
    expect(await deliveries()).toEqual([orphan, orphan, orphan])
  })

  test('each gets its own, even where both send the same bytes, before and after its job is known', async () => {
    await deliver(eventOf(EMAILS), null, BUILT_IN_SERVICE, B)
    await settleAll()
    const ofA = await submittedJob('j', EMAILS, A.number)
    await deliver(eventOf(EMAILS), null, BUILT_IN_SERVICE, A)
    const ofB = await submittedJob('j', EMAILS, B.number)
    // However late its job is known, it does not expire without it.
    await database.query(`update fillrate.jobs set deadline_at = now() - interval '1 s'`)
    expect(await recoverOnce()).toMatchObject({ attachedDeliveries: 1, expiredJobs: 0 })
    await settleAll()
    expect(await lookups()).toEqual([...EMAILS, ...EMAILS].map((email) => `${email[0]} found: T ${email}`))
    for (const id of [ofA, ofB]) expect(await job(id)).toEqual({ state: 'completed', reason: null })
  })

  test('a receiver that knows neither finds a job by our key alone', async () => {
    const id = await submittedJob('j', EMAILS, B.number)
    await deliver(eventOf(EMAILS), null)
    await settleAll()
    expect(await lookups()).toEqual(['a submitted', 'b submitted', 'c submitted'])
    await deliver(eventOf(EMAILS), id)
    await settleAll()
    expect(await job(id)).toEqual({ state: 'completed', reason: null })
  })

  test('results that name no input are read again by the service that delivered them', async () => {
    const unnamed = { event_id: 'e1', results: EMAILS.map((email) => ({ title: email })) }
    for (const from of [A, B]) {
      const id = await submittedJob('j', EMAILS, from.number)
      await deliver(unnamed, null, BUILT_IN_SERVICE, from)
      await settleAll()
      expect(await job(id)).toMatchObject({ state: 'unread' })
    }
    await beginRun(database.db, { scopes: { [A.number]: 'key', [B.number]: 'key' } })
    const stops = async (): Promise<boolean[]> => {
      const listed = [A, B].map(({ number }) => listRunning(database.db, { service: number, scope: 'key' }))
      return (await Promise.all(listed)).map(([run]) => run?.unread !== null)
    }
    expect(await stops()).toEqual([true, true])
    await requeueUnread(database.db, A.number)
    expect(await deliveries()).toMatchObject([{ state: 'received' }, { state: 'quarantined' }])
    // Until they are read, by whichever process, no run is stopped for them.
    expect(await stops()).toEqual([false, true])
    await settleAll()
    expect(await stops()).toEqual([true, true])
  })
})

test('a record from a failed job is not lost to a miss from a completed one in the same batch', async () => {
  const id = await submittedJob('j')
  await deliver({ status: 'failed', results: resultsFor(['a@x.example']) }, id)
  await deliver({ results: EMAILS.map((email) => ({ request_id: email, data: null })) }, id)
  expect(await settleAll()).toBe(1)
  expect(await lookups()).toEqual(['a found: T a@x.example', 'b not_found', 'c not_found'])
  expect(await job(id)).toEqual({ state: 'completed', reason: null })
})

test('a delivery without a terminal status ends nothing, and its results are used', async () => {
  const id = await submittedJob('j')
  const miss = { request_id: 'b@x.example', data: null }
  await deliver({ status: 'processing', results: [...resultsFor(['a@x.example']), miss] }, id)
  await settleAll()
  await recoverOnce()
  expect(await lookups()).toEqual(['a found: T a@x.example', 'b submitted', 'c submitted'])
  expect(await job(id)).toEqual({ state: 'submitted', reason: null })
  await deliver({ status: 'done', results: resultsFor(['b@x.example', 'c@x.example']) }, id)
  await settleAll()
  expect(await job(id)).toEqual({ state: 'completed', reason: null })
})

test('an input without a result waits some minutes for a further delivery, and is then requested once', async () => {
  const id = await submittedJob('j')
  await deliver({ results: resultsFor(['a@x.example']) }, id)
  await settleAll()
  await recoverOnce()
  expect(await lookups()).toEqual(['a found: T a@x.example', 'b submitted', 'c submitted'])
  await deliver({ results: resultsFor(['b@x.example']) }, id)
  await settleAll()
  await passGrace()
  expect(await recoverOnce()).toMatchObject({ releasedJobs: 1 })
  const after = ['a found: T a@x.example', 'b found: T b@x.example', 'c pending, in doubt 1']
  expect(await lookups()).toEqual(after)
  expect(await recoverOnce()).toMatchObject({ releasedJobs: 0 })
  expect(await lookups()).toEqual(after)
})

test.each([
  ['our key', true],
  ['the name that the service gave it', false],
])(
  'no input is requested again while results of its job, known by %s, are to be settled',
  async (_, byKey) => {
    const ids = [await submittedJob('j', EMAILS.slice(0, 1)), await submittedJob('k', EMAILS.slice(1))]
    const bring = (job: number, emails: readonly string[]): Promise<WebhookReceipt> =>
      deliver({ job_id: 'jk'[job], results: resultsFor(emails) }, byKey ? (ids[job] ?? null) : null)
    await bring(1, EMAILS.slice(1, 2))
    await settleAll()
    await bring(0, EMAILS.slice(0, 1))
    await bring(1, EMAILS.slice(2))
    await database.query(
      `update fillrate.jobs set deadline_at = now() - interval '1 s' where state = 'submitted'`,
    )
    await passGrace()
    expect(await recoverOnce()).toMatchObject({ expiredJobs: 0, releasedJobs: 0 })
    await settleAll()
    expect(await lookups()).toEqual(EMAILS.map((email) => `${email[0]} found: T ${email}`))
  },
)

test.each<[string, boolean, string, readonly string[]]>([
  [
    'its own job, in an order that is declared',
    true,
    'j',
    EMAILS.map((email, n) => `${'abc'[n]} found: T ${email}`),
  ],
  [
    'its own job, in an order that nothing confirms',
    false,
    'j',
    ['a submitted', 'b submitted', 'c submitted'],
  ],
  ['another job', true, 'of-another', ['a submitted', 'b submitted', 'c submitted']],
])('fetched results without identifiers, of %s', async (_, ordered, jobId, expected) => {
  const id = await submittedJob('j')
  const adapter = createService({ name: 'any', person: { path: '/' }, bulk: { path: '/bulk', ordered } })
  const results = EMAILS.map((email) => ({ data: { title: `T ${email}`, confidence: 0.9 } }))
  const delivery = { jobId, status: 'completed', results }
  await insertDeliveries(database.db, [toFetchedDelivery('fetched', id, { delivery, raw: null })], null)
  await settleAll(adapter)
  expect(await lookups()).toEqual(expected)
  const isUsed = expected[0]?.startsWith('a found') === true
  expect(await deliveries()).toMatchObject([
    { state: isUsed ? 'settled' : 'quarantined', quarantined_results: isUsed ? 0 : 3 },
  ])
  const state = isUsed ? 'completed' : 'unread'
  expect(await job(id)).toMatchObject({ state: jobId === 'j' ? state : 'submitted' })
})

describe('results that its reader names after the inputs of the job', () => {
  const NAMING = createService({
    name: 'any',
    person: { path: '/' },
    bulk: { path: '/bulk' },
    webhook: {
      signature: { header: 'x-webhook-signature' },
      read: ({ event_id: eventId, job_id: jobId, status, results }, job) => ({
        eventId,
        jobId,
        status,
        results: (results as object[]).map((data, n) => ({ request_id: job?.emails[n], data })),
      }),
    },
  })
  const unnamed = (list: readonly string[]): object[] =>
    list.map((email) => ({ title: `T ${email}`, confidence: 0.9 }))
  const FOUND = EMAILS.map((email, n) => `${'abc'[n]} found: T ${email}`)
  const WAITING = ['a submitted', 'b submitted', 'c submitted']

  test.each<[string, { path: 'own' | 'other' | 'none'; jobId: string | null }, readonly string[]]>([
    ['known by its address', { path: 'own', jobId: null }, FOUND],
    ['known by both', { path: 'own', jobId: 'j' }, FOUND],
    ['known by its identifier', { path: 'none', jobId: 'j' }, FOUND],
    // The address is not signed.
    ['that the body names, and not that of the address', { path: 'other', jobId: 'j' }, FOUND],
    ['that nothing names', { path: 'none', jobId: 'unknown' }, WAITING],
    ['of the address, where the body names an unknown one', { path: 'own', jobId: 'unknown' }, WAITING],
  ])('%s', async (_, { path, jobId }, expected) => {
    const id = await submittedJob('j')
    const other = await submittedJob('k', ['d@x.example', 'e@x.example', 'f@x.example'])
    const address = { own: id, other, none: null }[path]
    expect(await deliver({ job_id: jobId, results: unnamed(EMAILS) }, address, NAMING)).toBe('accepted')
    await settleAll(NAMING)
    expect(await lookups()).toEqual([...expected, 'd submitted', 'e submitted', 'f submitted'])
  })

  test('of a job that the body names, at the address of one that the service has not named yet', async () => {
    await submittedJob('j')
    const unnamedYet = await submittedJob(null, ['d@x.example', 'e@x.example', 'f@x.example'])
    await deliver({ job_id: 'j', results: unnamed(EMAILS) }, unnamedYet, NAMING)
    await settleAll(NAMING)
    expect((await lookups()).slice(3)).toEqual(['d submitted', 'e submitted', 'f submitted'])
  })

  test('an erased input keeps its place', async () => {
    const id = await submittedJob('j')
    await database.pool.query(`delete from fillrate.lookups where key = 'b@x.example'`)
    await deliver({ results: unnamed(EMAILS) }, id, NAMING)
    await settleAll(NAMING)
    expect(await lookups()).toEqual(['a found: T a@x.example', 'c found: T c@x.example'])
  })
})

test('6,000 results that share one identifier are settled with the other deliveries, and quarantined', async () => {
  const id = await submittedJob('j')
  const other = await submittedJob('k', ['d@x.example'])
  const results = Array.from({ length: 6_000 }, (_, n) => ({
    request_id: 'one',
    data: { title: `T ${n}`, confidence: 0.9 },
  }))
  await deliver({ results }, id)
  await deliver({ job_id: 'k', results: resultsFor(['d@x.example']) }, other)
  expect(await settleAll()).toBe(1)
  expect(await lookups()).toEqual(['a submitted', 'b submitted', 'c submitted', 'd found: T d@x.example'])
  expect(await deliveries()).toMatchObject([
    { state: 'quarantined', quarantined_results: 6_000 },
    { state: 'settled', quarantined_results: 0 },
  ])
  expect(await job(id)).toMatchObject({ state: 'completed', reason: '3 inputs without a result' })
})

test('a failed delivery without a match is quarantined, and ends its job nevertheless', async () => {
  const id = await submittedJob('j')
  await deliver({ status: 'failed', results: resultsFor(['x@elsewhere.example', 'y@elsewhere.example']) }, id)
  await settleAll()
  expect(await deliveries()).toMatchObject([{ state: 'quarantined', quarantined_results: 2 }])
  expect(await job(id)).toMatchObject({ state: 'failed' })
  await passGrace()
  await recoverOnce()
  expect(await lookups()).toEqual(['a', 'b', 'c'].map((name) => `${name} pending, in doubt 1`))
})

test('a delivery that Postgres rejects is quarantined alone, and later ones are settled', async () => {
  const id = await submittedJob('j')
  // Stands for any property of a record that makes a statement fail.
  await database.query(
    `alter table fillrate.lookups add constraint poison check (record ->> 'title' is distinct from 'poison')`,
  )
  try {
    const poison = [{ request_id: 'a@x.example', data: { title: 'poison', confidence: 1 } }]
    await deliver({ status: 'processing', results: poison }, id)
    await deliver({ status: 'processing', results: resultsFor(['b@x.example']) }, id)
    await settleAll()
  } finally {
    await database.query('alter table fillrate.lookups drop constraint poison')
  }
  expect(await deliveries()).toMatchObject([
    { state: 'quarantined', reason: 'settling failed: SQLSTATE 23514' },
    { state: 'settled' },
  ])
  expect(await lookups()).toEqual(['a submitted', 'b found: T b@x.example', 'c submitted'])
})

test('a job id too long for an index neither stops settling nor loses its job', async () => {
  const jobId = randomBytes(20_000).toString('base64')
  await deliver({ job_id: jobId, results: resultsFor(EMAILS) }, null)
  const id = await submittedJob(null)
  await deliver({ job_id: jobId, results: resultsFor(EMAILS.slice(1)) }, id)
  await settleAll()
  expect((await deliveries()).map((one) => (one as { state: string }).state)).toEqual(['orphaned', 'settled'])
  expect(await lookups()).toEqual(['a submitted', 'b found: T b@x.example', 'c found: T c@x.example'])
  // The job's id is known now, and earlier deliveries are attached.
  await recoverOnce()
  await settleAll()
  expect(await job(id)).toEqual({ state: 'completed', reason: null })
})

test('if the service uses a job_id twice, the webhook URL decides whose results they are', async () => {
  const old = await submittedJob('j', ['old@x.example'])
  const fresh = await submittedJob('j', ['new@x.example'])
  const result = (title: string): object => ({
    results: [{ request_id: 'q', data: { title, confidence: 0.9 } }],
  })
  await deliver(result('New'), fresh)
  await settleAll()
  expect(await lookups()).toEqual(['old submitted', 'new found: New'])
  // Without an address or another identifier, a result is not used.
  await deliver(result('Whose?'), null)
  await settleAll()
  expect(await lookups()).toEqual(['old submitted', 'new found: New'])
  expect(await job(old)).toMatchObject({ state: 'submitted' })
  expect(await deliveries()).toMatchObject([{ state: 'settled' }, { state: 'quarantined' }])
  await deliver({ results: resultsFor(['old@x.example']) }, null)
  await settleAll()
  expect(await lookups()).toEqual(['old found: T old@x.example', 'new found: New'])
})

test('the URL of one job with the id of another: only email addresses match', async () => {
  const one = await submittedJob('one', ['one@x.example'])
  await submittedJob('two', ['two@x.example'])
  await deliver(
    { job_id: 'two', results: [{ request_id: 'q', data: { title: 'Whose?', confidence: 0.9 } }] },
    one,
  )
  await settleAll()
  expect(await lookups()).toEqual(['one submitted', 'two submitted'])
  expect(await job(one)).toMatchObject({ state: 'submitted' })
  await deliver({ job_id: 'two', results: resultsFor(['two@x.example']) }, one)
  await settleAll()
  expect(await lookups()).toEqual(['one submitted', 'two found: T two@x.example'])
})

test('a batch of deliveries is bounded by bytes as well as by count', async () => {
  const id = await submittedJob('j', [...EMAILS, 'd@x.example'])
  const padding = 'x'.repeat(5 * 2 ** 20)
  for (const email of [...EMAILS, 'd@x.example'])
    await deliver({ status: 'processing', padding, results: resultsFor([email]) }, id)
  expect(await settleAll()).toBe(2)
  expect(await job(id)).toMatchObject({ state: 'completed' })
})

test('a lookup accepted as a job is settled by its only result, parsed by its kind', async () => {
  await acceptedSingles()
  // After an erasure, a result without an address is not assigned to the erased member.
  const erased = [{ kind: 'email', key: 'erased@x.example' } as const]
  await database.db.transaction().execute((tx) => insertSuppressions(tx, erased))
  const company = { name: 'Acme', industry: 'Tools', title: 'a company' }
  const person = { email: 'other@person.example', title: 'CEO', confidence: 0.9 }
  await deliver({ job_id: 'single domain', results: [{ request_id: 'r', data: company }] }, null)
  await deliver({ job_id: 'single linkedin_url', results: [{ request_id: 'r', data: person }] }, null)
  await settleAll()
  expect(await lookups()).toEqual(['ada found: CEO', 'acme.example found: a company'])
})

test('a lookup accepted as a job that is never delivered uses up its attempts', async () => {
  await acceptedSingles()
  await database.query(`update fillrate.jobs set deadline_at = now() - interval '1 s'`)
  await recover.recoverAbandoned({ db: database.db, log, policy: { attempts: 1 } }, [])
  const rows = await database.query('select state, reason, attempts from fillrate.lookups')
  const failed = { state: 'failed', reason: 'its job was not delivered in time, 1 attempt', attempts: 1 }
  expect(rows).toEqual([failed, failed])
})

/** A profile and a domain, each accepted as a job of one. */
async function acceptedSingles(): Promise<void> {
  const rows = await database.query<{ id: string; kind: string; token: string }>(
    `insert into fillrate.lookups (kind, key, input, state, lease_token, leased_until)
     select kind, key, jsonb_build_object(kind, key), 'leased', gen_random_uuid(), now() + interval '1 hour'
       from (values ('linkedin_url', 'ada'), ('domain', 'acme.example')) v (kind, key)
     returning id, kind, lease_token as token`,
  )
  for (const { id, kind, token } of rows)
    await createFromAsyncAnswer(database.db, { id: Number(id), token }, `single ${kind}`, null, 3_600_000)
}

test('where no job is to be recovered, no transaction is begun', async () => {
  await submittedJob('job_1')
  database.statements()
  await recoverOnce()
  expect(database.statements().filter((text) => text.startsWith('begin'))).toEqual([])
  await database.query(`update fillrate.jobs set deadline_at = now() - interval '1 s'`)
  expect(await recoverOnce()).toMatchObject({ expiredJobs: 1 })
})

test('closing a delivery does not send its answers again', () => {
  const closed = { id: randomUUID(), state: 'settled', reason: null, quarantinedResults: 2 } as const
  const settled = { ...closed, matched: { answers: [{ record: { title: 'CEO' } }] } }
  const { parameters } = closeDeliveriesSql([settled]).compile(database.db)
  expect(JSON.parse(String(parameters[0]))).toEqual([closed])
})
