import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { expect, test } from 'vitest'
import type { RateDefinition } from '../../../src/domain/service/documented-limit.ts'
import type { JobProgress } from '../../../src/domain/service/messages.ts'
import { createService } from '../../../src/domain/service/service.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import { pollJobs } from '../../../src/pipeline/poll.ts'
import { UnavailableError } from '../../../src/service/errors.ts'
import { useTestDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'

const database = useTestDatabase()

const RESULTS: JobProgress = {
  outcome: 'results',
  delivery: { results: [{ request_id: 'a@x.example', data: {} }] },
}

/** Inserts a job that was submitted an hour ago, has its deadline in five, and is due. */
async function insertJob(jobId: string, scope = 'a scope', isSingle = false): Promise<string> {
  const key = randomUUID()
  await database.query(
    `insert into fillrate.jobs (key, job_id, scope, is_async_answer, state, size, lookup_ids, submitted_at, deadline_at, poll_at)
     values ($1, $2, $3, $4, 'submitted', 1, '{1}', now() - interval '1 hour', now() + interval '5 hours', now())`,
    [key, jobId, scope, isSingle],
  )
  return key
}

/** When the latest poll was made, by its own clock: how long this machine took to read the job is no delay. */
let polledAt = 0

const readJob = async (key: string) => {
  const rows = await database.query<{
    state: string
    polls: number
    seconds: number
    beforeDeadline: number
    deliveries: number
  }>(
    `select state, polls, round(extract(epoch from poll_at) - $2::float8 / 1000)::int as seconds,
            round(extract(epoch from deadline_at - poll_at))::int as "beforeDeadline",
            (select count(*) from fillrate.deliveries where job_key = key)::int as deliveries
       from fillrate.jobs where key = $1`,
    [key, polledAt],
  )
  return rows[0]
}

/** Polls once. @param fetchJob what the service answers */
function poll(
  fetchJob: (jobId: string) => Promise<JobProgress>,
  limit?: RateDefinition['limit'],
  endpoints: unknown[] = [],
  webhookUrl: CallDeps['webhookUrl'] = null,
) {
  polledAt = Date.now()
  const service = {
    name: 'Acme',
    person: { path: '/' },
    poll: { path: '/jobs/{job_id}', ...(webhookUrl === null && { after: '10s' }) },
    ...(limit !== undefined && { rate: { limit } }),
  } as const
  const deps = {
    db: database.db,
    adapter: createService(service),
    slots: new PrioritySemaphore(2),
    log: pino({ level: 'silent' }),
    now: () => polledAt,
    policy: { timeoutMs: 1_000, attempts: 5 },
    breaker: { state: 'closed', nextProbeAt: null, execute: <T>(act: () => Promise<T>) => act() },
    limiter: {
      acquire: (count: number, _priority: unknown, _signal: unknown, endpoint: unknown) => {
        endpoints.push(endpoint)
        return Promise.resolve({ count, use: () => ({ end: () => {} }), release: () => {} })
      },
    },
    client: {
      callsAllowedByKey: Number.POSITIVE_INFINITY,
      fetchJob: ({ jobId }: { readonly jobId: string }) => fetchJob(jobId),
    },
    webhookUrl,
  } as unknown as CallDeps
  return pollJobs(deps, 'a scope', { signal: new AbortController().signal })
}

test('results are stored once, whatever is delivered meanwhile, and only jobs of the own scope are fetched', async () => {
  const [lost, delivered, foreign] = await Promise.all([
    insertJob('lost'),
    insertJob('delivered'),
    insertJob('foreign', 'another scope'),
  ])
  // Its key was replaced meanwhile, and its run goes on with another one.
  const rotated = await insertJob('rotated', 'a former scope')
  const run = await beginRun(database.db, { sources: [], route: 'bulk', scopes: { 0: 'a scope' } })
  await database.query('update fillrate.jobs set run_id = $1 where key = $2', [run, rotated])
  const fetched: string[] = []
  const result = await poll(async (jobId) => {
    fetched.push(jobId)
    if (jobId === 'delivered')
      await database.query(
        `insert into fillrate.deliveries (event_id, job_key, state, body) values ('e1', $1, 'received', '{}')`,
        [delivered],
      )
    return RESULTS
  })
  expect(result).toEqual({ polled: 3, fetched: 2, stop: null })
  expect(fetched.toSorted()).toEqual(['delivered', 'lost', 'rotated'])
  expect(await readJob(lost)).toMatchObject({ deliveries: 1, polls: 1 })
  expect(await readJob(delivered)).toMatchObject({ deliveries: 1 })
  expect(await readJob(foreign)).toMatchObject({ polls: 0, deliveries: 0 })
  const rows = await database.query(
    `select state, body::json ->> 'status' as status
    from fillrate.deliveries where job_key = $1`,
    [lost],
  )
  expect(rows).toEqual([{ state: 'received', status: 'completed' }])
  await database.query('delete from fillrate.jobs')
})

test('a job whose results wait to be settled is not fetched again, however long that takes', async () => {
  const key = await insertJob('waits')
  expect(await poll(async () => RESULTS)).toMatchObject({ polled: 1, fetched: 1 })
  await database.query('update fillrate.jobs set poll_at = now()')
  expect(await poll(async () => RESULTS)).toMatchObject({ polled: 0 })
  // They could not be used.
  await database.query(`update fillrate.deliveries set state = 'orphaned' where job_key = $1`, [key])
  expect(await poll(async () => RESULTS)).toMatchObject({ polled: 1 })
  await database.query('delete from fillrate.jobs')
})

test('what is not ready, or fails, is fetched again later each time, and once more before the deadline', async () => {
  const [slow, broken] = await Promise.all([insertJob('slow'), insertJob('broken')])
  const endpoint = 'GET /jobs/{job_id}'
  const answer = async (jobId: string): Promise<JobProgress> => {
    if (jobId === 'slow') return { outcome: 'pending' }
    throw new UnavailableError('down', { endpoint, status: 503, retryAfterMs: 600_000 })
  }
  const waits: unknown[] = []
  for (const _ of [1, 2, 3]) {
    await poll(answer)
    waits.push([(await readJob(slow))?.seconds, (await readJob(broken))?.seconds])
    await database.query('update fillrate.jobs set poll_at = now()')
  }
  expect(waits).toEqual([
    [20, 600],
    [40, 600],
    [80, 600],
  ])
  await database.query(`update fillrate.jobs set polls = 20, deadline_at = now() + interval '3 minutes'`)
  await poll(answer)
  expect(await readJob(slow)).toMatchObject({ state: 'submitted', beforeDeadline: 60 })
  await database.query(`update fillrate.jobs set poll_at = now(), deadline_at = now() + interval '1 second'`)
  await poll(answer)
  expect(await readJob(slow)).toMatchObject({ seconds: null })
  expect(await poll(answer)).toMatchObject({ polled: 0 })
})

test('where deliveries arrive, a job is fetched late, and a single lookup, for which none comes, is not', async () => {
  const job = await insertJob('of many')
  const single = await insertJob('of one', 'a scope', true)
  await poll(
    async () => ({ outcome: 'pending' }),
    undefined,
    [],
    () => 'https://fillrate.example',
  )
  expect([(await readJob(job))?.seconds, (await readJob(single))?.seconds]).toEqual([240, 20])
  await database.query('delete from fillrate.jobs')
})

test('a poll counts against its own limit, or against that of bulk calls', async () => {
  const endpoints: unknown[] = []
  for (const limit of [undefined, '60 per minute', { bulk: '5 per minute' }, { poll: '15 per minute' }]) {
    await insertJob(`limited by ${JSON.stringify(limit)}`)
    await poll(async () => RESULTS, limit, endpoints)
  }
  expect(endpoints).toEqual(['bulk', 'bulk', 'bulk', 'poll'])
})
