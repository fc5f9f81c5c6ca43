import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestServer, serveApp, type Stop } from '../../support/app-processes.ts'
import { createCommandLine } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { basicAuth } from '../../support/dashboard-client.ts'
import { freePort } from '../../support/free-port.ts'
import { runRequest, useHarness, type Harness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'
import { request } from 'undici'

const TOKEN = 'a-token-that-is-hard-to-guess'
const PROTECTED_PATHS = [
  '/',
  '/api/status',
  '/metrics',
  '/rows',
  '/system',
  '/row?source=contacts&key=1',
  '/runs/1',
]
const serving: Stop[] = []

async function serve(environment: Parameters<Harness['open']>[0] = {}): Promise<string> {
  const { at, stop } = await serveApp(await harness.open(environment))
  serving.push(stop)
  return at
}

const harness = useHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 60, 5) })
/** Serves what it has done. */
let worker: string
beforeAll(async () => {
  const app = await harness.open()
  await app.run(runRequest())
  const served = await serveApp(app)
  worker = served.at
  serving.push(served.stop)
})
afterAll(() => Promise.all(serving.map((stop) => stop())))

interface Got {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

async function send(url: string, options: Parameters<typeof request>[1] = {}): Promise<Got> {
  const { statusCode, headers, body } = await request(url, options)
  return { status: statusCode, headers, text: await body.text() }
}

const form = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
  ({
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  }) as const

describe('with a token', () => {
  let at: string
  beforeAll(async () => {
    at = await serve({
      environment: { dashboardTokens: [{ name: 'anna', role: 'operator', secret: TOKEN }], host: '0.0.0.0' },
    })
  })

  test.each(PROTECTED_PATHS)('%s requires it', async (path) => {
    const wrong = [`Bearer ${TOKEN}x`, `Basic ${TOKEN}`, basicAuth(`${TOKEN}x`), basicAuth('', TOKEN)]
    for (const authorization of [undefined, ...wrong])
      for (const accept of ['text/html', 'application/json']) {
        const got = await send(at + path, { headers: { accept, ...(authorization && { authorization }) } })
        // A browser asks for it by itself.
        expect(got).toMatchObject({
          status: 401,
          headers: { 'www-authenticate': 'Basic realm="Fillrate"', 'cache-control': 'no-store' },
        })
        expect(got.text).toContain('FILLRATE_DASHBOARD_TOKEN')
        expect(got.text).not.toContain(TOKEN)
      }
  })

  test('it is the password of any user name, or a bearer token', async () => {
    for (const authorization of [basicAuth(TOKEN), basicAuth(TOKEN, 'ben'), `Bearer ${TOKEN}`])
      for (const path of ['/', '/rows', '/api/status', '/metrics']) {
        const got = await send(at + path, { headers: { authorization, accept: 'text/html' } })
        expect([path, got.status]).toEqual([path, 200])
        expect(got.headers['set-cookie']).toBeUndefined()
        expect(got.text).not.toContain(TOKEN)
      }
  })

  test('webhook and health do not require it', async () => {
    expect((await send(`${at}/healthz`)).status).toBe(200)
    expect((await send(`${at}/readyz`)).status).toBe(200)
    // Rejected for the missing signature.
    expect((await send(`${at}/webhooks/enrichment`, { method: 'POST', body: '{}' })).text).toContain(
      'signature',
    )
  })
})

describe('without a token', () => {
  test('off loopback everything but webhook and health is denied, with the setting to change', async () => {
    const at = await serve({ environment: { host: '0.0.0.0' } })
    for (const path of PROTECTED_PATHS) {
      const got = await send(at + path)
      expect(got.status).toBe(403)
      expect(got.text).toContain('FILLRATE_DASHBOARD_TOKEN')
    }
    expect((await send(`${at}/healthz`)).status).toBe(200)
  })

  test('on loopback it is open, except under a foreign host name', async () => {
    const at = await serve()
    expect((await send(`${at}/`)).status).toBe(200)
    expect((await send(`${at}/`, { headers: { host: 'evil.example' } })).status).toBe(403)
  })

  test('behind a possible proxy, everything but webhook and health is denied', async () => {
    const published = await serve({ environment: { publicUrl: 'https://hooks.example' } })
    const local = await serve()
    const own = { 'sec-fetch-site': 'same-origin' }
    for (const [at, headers] of [
      [published, {}],
      [local, { 'x-forwarded-for': '198.51.100.1' }],
      [local, { via: '1.1 proxy' }],
      [local, { forwarded: 'for=198.51.100.1' }],
      [local, { 'x-real-ip': '198.51.100.1' }],
    ] as const) {
      for (const path of PROTECTED_PATHS) {
        const got = await send(at + path, { headers })
        expect(got.status).toBe(403)
        expect(got.text).toContain('FILLRATE_DASHBOARD_TOKEN')
      }
      const paused = await send(`${at}/sources/contacts/pause`, form({}, { ...headers, ...own }))
      expect(paused.status).toBe(403)
      expect((await send(`${at}/healthz`, { headers })).status).toBe(200)
      expect((await send(`${at}/readyz`, { headers })).status).toBe(200)
      const delivered = await send(`${at}/webhooks/enrichment`, { method: 'POST', body: '{}', headers })
      expect(delivered.text).toContain('signature')
    }
    expect(await harness.count('fillrate.source_state where paused_at is not null')).toBe(0)
  })

  test('health that strangers send for is looked up once for all of them', async () => {
    let looked = 0
    const server = await openTestServer({
      notReadyReason: async () => {
        looked++
        return null
      },
    })
    try {
      const statuses = await Promise.all(
        Array.from(
          { length: 100 },
          async () => (await send(`http://127.0.0.1:${server.port}/readyz`)).status,
        ),
      )
      expect(new Set(statuses)).toEqual(new Set([200]))
      expect(looked).toBeLessThan(50)
    } finally {
      await server.close()
    }
  })

  test('only its own pages can pause a source', async () => {
    const at = await serve()
    const post = (path: string, headers: Record<string, string>): Promise<Got> =>
      send(`${at}${path}`, form({}, headers))
    const paused = 'select from fillrate.source_state where paused_at is not null'
    for (const headers of [
      {},
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ])
      expect((await post('/sources/contacts/pause', headers as Record<string, string>)).status).toBe(403)
    expect((await harness.database.pool.query(paused)).rowCount).toBe(0)
    expect((await post('/sources/contacts/pause', { origin: at })).status).toBe(303)
    expect((await harness.database.pool.query(paused)).rowCount).toBe(1)
    expect((await post('/sources/contacts/resume', { origin: at })).status).toBe(303)
    expect((await post('/sources/else/pause', { origin: at })).status).toBe(404)
  })
})

test('a page may load and run nothing but our own files', async () => {
  const at = await serve()
  const { headers, text } = await send(`${at}/`)
  expect(headers['content-security-policy']).toMatch(
    /^default-src 'none'; script-src 'self'; style-src 'self'/,
  )
  expect(text).not.toMatch(/<script(?! type="module" src="\/assets)|<style| style=| on\w+=/)
  expect(text).not.toMatch(/(?:src|href|action)="(?!\/|#)/)
  for (const [, path = ''] of text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
    const got = await send(at + path)
    expect(got.status).toBe(200)
    // A hash of the content: npm gives the files of every release the same time.
    expect(got.headers['etag']).toMatch(/^"[\w-]{22}"$/)
    const again = await send(at + path, { headers: { 'if-none-match': String(got.headers['etag']) } })
    expect(again).toMatchObject({ status: 304, text: '' })
  }
})

test('/api/status reports what `fillrate status --json` does, and leaves the tables of the user alone', async () => {
  const at = await serve()
  const cli = await createCommandLine(harness.database.url, harness.sandbox, withAccounts)
  interface Status {
    readonly fill_rate: Record<string, { readonly columns: readonly { readonly column: string }[] }>
  }
  try {
    const { stdout } = await runProgram({ cwd: cli.folder, env: cli.environment }, 'status', '--json')
    const counted = JSON.parse(stdout) as Status
    const client = await harness.database.pool.connect()
    try {
      await client.query('begin; lock table crm.contacts, crm.accounts in access exclusive mode')
      const { fill_rate: coverage, ...state } = JSON.parse((await send(`${at}/api/status`)).text) as Status
      expect({ ...state, fill_rate: {} }).toEqual({ ...counted, fill_rate: {} })
      // Counted by the run, which leaves a count out where counting costs too much: it may be an older one.
      const rows = await harness.query<{ source: string; at: Date; eligible: number }>(
        `select distinct on (source) source, (f ->> 'at')::timestamptz as at, (f ->> 'eligible')::int as eligible
           from fillrate.runs, jsonb_each(totals -> 'fill_rates') c (source, f) order by source, id desc`,
      )
      expect(Object.entries(coverage).map(([source, one]) => ({ ...one, source }))).toEqual(
        rows.toReversed().map(({ source, at: measuredAt, eligible }) => ({
          source,
          eligible,
          measured_at: measuredAt.toISOString(),
          columns: counted.fill_rate[source]?.columns.map(({ column }) => ({
            column,
            filled: expect.any(Number) as number,
          })),
        })),
      )
      expect(Object.keys(coverage)).toEqual(Object.keys(counted.fill_rate))
    } finally {
      await client.query('rollback')
      client.release()
    }
  } finally {
    await cli.remove()
  }
})

test('a scrape that Postgres does not answer in time says that Postgres is up, and gives none of its figures', async () => {
  const at = await serve()
  const client = await harness.database.pool.connect()
  try {
    await client.query('begin; lock table fillrate.deliveries')
    const { text } = await send(`${at}/metrics`)
    expect(text).toMatch(/^fillrate_database_up 1$/m)
    expect(text).not.toContain('fillrate_rows')
  } finally {
    await client.query('rollback')
    client.release()
  }
})

test('/metrics is what Prometheus reads, and its numbers are those of the process and the tables', async () => {
  let answer = await send(`${worker}/metrics`)
  // What takes over five seconds to read, on a busy machine, is left out.
  for (let again = 0; again < 4 && !answer.text.includes('\nfillrate_rows{'); again++)
    answer = await send(`${worker}/metrics`)
  const { headers, text } = answer
  expect(headers['content-type']).toContain('text/plain; version=0.0.4')
  const lines = text.trim().split('\n')
  const families = new Set(
    lines.flatMap((line) => /^# TYPE (\S+) (?:counter|gauge|histogram)$/.exec(line)?.[1] ?? []),
  )
  const samples = lines.filter((line) => !line.startsWith('#'))
  const sample = /^([a-z][a-z0-9_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (\d+(?:\.\d+)?(?:e-?\d+)?)$/
  expect(samples.filter((line) => !sample.test(line))).toEqual([])
  const values = new Map(
    samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
  )
  expect(values.size).toBe(samples.length)
  const named = [...values.keys()].map((series) => series.replace(/\{.*/, ''))
  expect(
    named.filter((name) => !families.has(name) && !families.has(name.replace(/_(bucket|sum|count)$/, ''))),
  ).toEqual([])
  const sum = (of: string): number =>
    [...values].reduce((all, [name, value]) => (name.startsWith(of) ? all + value : all), 0)
  expect(sum('fillrate_runs_total')).toBe(1)
  expect(values.get('fillrate_runs_total{trigger="manual",status="completed"}')).toBe(1)
  const calls = await harness.query<{ calls: number }>(`select sum(calls)::int as calls from fillrate.spend`)
  expect(sum('fillrate_requests_total')).toBe(calls[0]?.calls)
  expect(sum('fillrate_request_duration_seconds_count')).toBe(calls[0]?.calls)
  expect(values.get('fillrate_database_up')).toBe(1)
  expect(sum('fillrate_condition{')).toBe(0)
  expect(sum('process_resident_memory_bytes')).toBeGreaterThan(1e7)
  // A run of live sync must not hide that no other run ends.
  const ends = await harness.database.pool.query<{ ended: number }>(
    `select extract(epoch from max(finished_at))::float8 as ended from fillrate.runs
      where trigger = 'manual' and totals ->> 'status' = 'completed'`,
  )
  expect(
    values.get('fillrate_last_run_end_timestamp_seconds{trigger="manual",status="completed"}'),
  ).toBeCloseTo(ends.rows[0]?.ended ?? 0, 2)
  expect(values.get('fillrate_write_back_batch_seconds_bucket{le="+Inf"}')).toBe(
    values.get('fillrate_write_back_batch_seconds_count'),
  )
  expect(values.get('fillrate_delivery_lag_seconds_count')).toBe(1)
  const rows = await harness.query<{ answered: number }>(
    `select count(*)::int as answered from fillrate.lookups where resolved_at is not null`,
  )
  const ofService = `fillrate_lookups_total{service="${new URL(harness.sandbox.url).host}",outcome=`
  expect(sum(`${ofService}"found"`) + sum(`${ofService}"not_found"`)).toBe(rows[0]?.answered)
})

// The last one: it adds a row.
test('a single run has no dashboard: it would be open to every user of the machine', async () => {
  const port = await freePort()
  const app = await harness.open({ environment: { port } })
  let looked: Promise<Record<string, number>> | null = null
  const look = async (): Promise<Record<string, number>> => {
    const at = `http://127.0.0.1:${port}`
    const statuses: Record<string, number> = {}
    for (const path of ['/healthz', '/', '/api/status', '/metrics', '/row?source=contacts&key=1'])
      statuses[path] = (await send(at + path)).status
    return statuses
  }
  await harness.query(`insert into crm.contacts (email) values ('beside-a-run@example.com')`)
  harness.sandbox.configure({ latencyAfterMs: 500 })
  await app.run(runRequest({ onProgress: () => void (looked ??= look().catch(() => ({}))) }))
  harness.sandbox.configure({ latencyAfterMs: 0 })
  expect(await looked).toEqual({
    '/healthz': 200,
    '/': 404,
    '/api/status': 404,
    '/metrics': 404,
    '/row?source=contacts&key=1': 404,
  })
})
