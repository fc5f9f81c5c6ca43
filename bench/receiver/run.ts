import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { Pool } from 'undici'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { signWebhook } from '../../src/webhook/signature.ts'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'

// `npx node bench/receiver/run.ts`: how long `fillrate serve` takes to acknowledge a delivery of 100 results while it settles and
// writes back earlier ones. Postgres has default settings: a delivery is on disk before its 200.

const SECRET = 'bench-secret'
const RESULTS = 100
const TARGET_MS = 250

const { values } = parseArgs({
  options: { rate: { type: 'string', default: '200' }, seconds: { type: 'string', default: '10' } },
})
const rate = Number(values.rate)
const count = rate * Number(values.seconds)

const postgres = await startEmbeddedPostgres([])
const folder = await mkdtemp(join(tmpdir(), 'fillrate-bench-'))
const pool = new pg.Pool({ connectionString: postgres.url, max: 2 })
// The server stops before the pool's last connection has closed.
pool.on('error', () => {})
try {
  const jobs = await prepare()
  const { url, stop } = await serve()
  const times = await load(url, jobs)
  const { rows } = await pool.query<{ stored: number }>(
    'select count(*)::int as stored from fillrate.deliveries',
  )
  const settled = await untilSettled()
  stop()
  report(times, rows[0]?.stored ?? 0, settled)
} finally {
  await pool.end()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true })
}

/** Creates a CRM, and a job of 100 inputs for each delivery. */
async function prepare(): Promise<string[]> {
  const db = openDatabase({ url: postgres.url, max: 1 })
  await migrate(db)
  await db.destroy()
  await pool.query(`create table contacts (id bigint primary key, email text, title text)`)
  await pool.query(
    `insert into contacts select n, 'p' || n || '@example.com' from generate_series(1, $1::int) n`,
    [count * RESULTS],
  )
  await pool.query(
    `insert into fillrate.jobs (key, job_id, state, size, lookup_ids, deadline_at)
     select gen_random_uuid(), 'job-' || n, 'submitted', ${RESULTS}, array(select generate_series((n - 1) * ${RESULTS} + 1, n * ${RESULTS})), now() + interval '1 h'
       from generate_series(1, $1::int) n order by n`,
    [count],
  )
  await pool.query(
    `insert into fillrate.lookups (kind, key, input, state, job_key)
     select 'email', c.email, jsonb_build_object('email', c.email), 'submitted', j.key
       from contacts c join fillrate.jobs j on j.job_id = 'job-' || ((c.id - 1) / ${RESULTS} + 1) order by c.id`,
  )
  await pool.query(
    `insert into fillrate.rows (source, key, lookup_id, input_hash, state)
     select 'contacts', c.id, l.id, hashtextextended(c.email, 1), 'waiting' from contacts c join fillrate.lookups l on l.key = c.email`,
  )
  await pool.query('vacuum analyze')
  const { rows } = await pool.query<{ id: string }>(
    `select key as id from fillrate.jobs order by substr(job_id, 5)::int`,
  )
  return rows.map((row) => row.id)
}

async function serve(): Promise<{ url: string; stop: () => void }> {
  await writeFile(
    join(folder, 'fillrate.config.json'),
    JSON.stringify({
      sources: {
        contacts: {
          kind: 'person',
          table: 'contacts',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    }),
  )
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../src/main.ts'), 'serve'], {
    cwd: folder,
    env: { PATH: process.env['PATH'], DATABASE_URL: postgres.url, FILLRATE_WEBHOOK_SECRET: SECRET },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const line of createInterface(child.stderr)) {
    const at = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0]
    if (at) {
      child.stderr.resume()
      return { url: at, stop: () => child.kill('SIGKILL') }
    }
  }
  throw new Error(`the receiver did not open: ${String(await once(child, 'close'))}`)
}

/** Sends at a steady rate, whether or not earlier deliveries are answered. @returns the times in milliseconds */
async function load(url: string, jobs: readonly string[]): Promise<number[]> {
  const client = new Pool(url, { connections: 64 })
  const times: number[] = []
  const deliveries = jobs.map((job, n) => {
    const body = bodyOf(n)
    return { job, body, signature: signWebhook(body, SECRET) }
  })
  const startedAt = performance.now()
  await Promise.all(
    deliveries.map(async ({ job, body, signature }, n) => {
      await sleep(Math.max(1, (n * 1000) / rate - (performance.now() - startedAt)))
      const sent = performance.now()
      const response = await client.request({
        method: 'POST',
        path: `/webhooks/enrichment/${job}`,
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        body,
      })
      await response.body.dump()
      if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode}`)
      times.push(performance.now() - sent)
    }),
  )
  await client.close()
  return times
}

function bodyOf(n: number): string {
  const results = Array.from({ length: RESULTS }, (_, at) => {
    const email = `p${n * RESULTS + at + 1}@example.com`
    const company = { id: `c${at}`, name: 'Example Company', domain: 'example.com' }
    const name = { full: 'Ada Example', first: 'Ada', last: 'Example' }
    const data = {
      id: `p-${n}-${at}`,
      email,
      name,
      title: 'Head of Examples',
      seniority: 'director',
      department: 'engineering',
      phone: '+4712345678',
      linkedin: `https://www.linkedin.com/in/p${n}-${at}`,
      company,
      confidence: 0.93,
      last_updated: '2026-01-01T00:00:00Z',
    }
    return { request_id: email, data }
  })
  return JSON.stringify({ event_id: `event-${n}`, job_id: `job-${n + 1}`, status: 'completed', results })
}

async function untilSettled(): Promise<number> {
  const startedAt = performance.now()
  for (;;) {
    const { rows } = await pool.query<{ open: number }>(
      `select count(*)::int as open from fillrate.deliveries where state = 'received'`,
    )
    if (rows[0]?.open === 0) return performance.now() - startedAt
    await sleep(100)
  }
}

function report(times: readonly number[], stored: number, settledMs: number): void {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): string => (sorted[Math.ceil(share * sorted.length) - 1] ?? 0).toFixed(1)
  const size = (Buffer.byteLength(bodyOf(0)) / 1024).toFixed(0)
  console.log(`${count} deliveries of ${RESULTS} results (${size} KiB), ${rate} a second`)
  console.log(
    `acknowledged after  p50 ${at(0.5)} ms  p95 ${at(0.95)} ms  p99 ${at(0.99)} ms  max ${at(1)} ms`,
  )
  console.log(
    `stored at the last acknowledgement: ${stored} of ${count}; all settled ${(settledMs / 1000).toFixed(1)} s later`,
  )
  const good = Number(at(0.99)) < TARGET_MS && stored === count
  console.log(
    good ? `✓ p99 under ${TARGET_MS} ms` : `✗ the target is a p99 under ${TARGET_MS} ms, with all stored`,
  )
  process.exitCode = good ? 0 : 1
}
