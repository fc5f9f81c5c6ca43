import { Logger, run as runWorker } from 'graphile-worker'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import type { Outcome, Task } from './candidate.ts'
import { enrichContact, UNENRICHED, type Contact } from './plain-script.ts'

// The same work as the plain script's, a row a job, on a job queue in Postgres: what a team builds that wants its rows
// retried and resumed. Each with the settings that its documentation recommends for many small jobs.

/** How often the end is looked for, in milliseconds. */
const POLL_MS = 20

/** graphile-worker: one statement adds the jobs; as many are worked on at once as the script makes calls. */
export async function runGraphileWorker(task: Task): Promise<Outcome> {
  const startedAt = performance.now()
  const statements = countStatements()
  const pool = new pg.Pool({ connectionString: task.databaseUrl, max: 10 })
  const runner = await runWorker({
    pgPool: pool,
    concurrency: task.concurrency,
    noHandleSignals: true,
    logger: new Logger(() => () => {}),
    preset: { worker: { localQueue: { size: 10 * task.concurrency }, completeJobBatchDelay: 0 } },
    taskList: {
      enrich: (payload, { query }) =>
        enrichContact(task, payload as Contact, (text, values) => query(text, values)),
    },
  })
  await pool.query(
    `select graphile_worker.add_job('enrich', json_build_object('id', id, 'email', email)) ${UNENRICHED}`,
  )
  await untilEmpty(pool, 'graphile_worker.jobs')
  await runner.stop()
  await pool.end()
  return { durationMs: performance.now() - startedAt, statements: statements() }
}

/** pg-boss: two workers that fetch in batches, and at once again while a batch comes back full. */
export async function runPgBoss(task: Task): Promise<Outcome> {
  const startedAt = performance.now()
  const statements = countStatements()
  const pool = new pg.Pool({ connectionString: task.databaseUrl, max: 10 })
  const boss = new PgBoss({ connectionString: task.databaseUrl, max: 10, supervise: false, schedule: false })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue('enrich')
  const { rows } = await pool.query<Contact>(`select id, email ${UNENRICHED}`)
  for (let i = 0; i < rows.length; i += 1_000)
    await boss.insert(
      'enrich',
      rows.slice(i, i + 1_000).map((data) => ({ data })),
    )
  await boss.work<Contact>(
    'enrich',
    {
      batchSize: task.concurrency / 2,
      localConcurrency: 2,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    },
    async (jobs) => {
      await Promise.all(
        jobs.map(({ data }) => enrichContact(task, data, (text, values) => pool.query(text, values))),
      )
    },
  )
  await untilEmpty(pool, `pgboss.job where name = 'enrich' and state < 'completed'`)
  await boss.stop({ graceful: true })
  await pool.end()
  return { durationMs: performance.now() - startedAt, statements: statements() }
}

async function untilEmpty(pool: pg.Pool, jobs: string): Promise<void> {
  while ((await pool.query(`select 1 from ${jobs} limit 1`)).rowCount !== 0)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
}

/** Counts the statements of this process, whatever library sends them. @returns the count so far */
function countStatements(): () => number {
  let count = 0
  const prototype = pg.Client.prototype as { query: (...args: unknown[]) => unknown }
  const { query } = prototype
  prototype.query = function (...args: unknown[]): unknown {
    count++
    return query.apply(this, args)
  }
  return () => count
}
