import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCommandLine } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'
import { request } from 'undici'

const TOKEN = 'a-token-that-nobody-guesses'
const NOT_MET = [
  '/',
  '/api/status',
  '/metrics',
  '/events',
  '/failures',
  '/row?source=contacts&key=1',
  '/runs/1',
]
let harness: Harness
const stop = new AbortController()
const served: Promise<void>[] = []

async function serve(environment: Parameters<Harness['open']>[0] = {}): Promise<string> {
  const app = await harness.open(environment)
  const listening = Promise.withResolvers<string>()
  served.push(app.serve({ signal: stop.signal, onListening: (url) => listening.resolve(url ?? '') }))
  return (await listening.promise).replace('0.0.0.0', '127.0.0.1')
}

beforeAll(async () => {
  harness = await startHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 60, 5) })
  await harness.run()
})
afterAll(async () => {
  stop.abort()
  await Promise.all(served)
  await harness.close()
})

interface Got {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

async function ask(url: string, options: Parameters<typeof request>[1] = {}): Promise<Got> {
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
    at = await serve({ environment: { dashboardToken: TOKEN, host: '0.0.0.0' } })
  })

  test.each(NOT_MET)('%s is closed to whoever has none', async (path) => {
    for (const authorization of [undefined, 'Bearer wrong', `Bearer ${TOKEN}x`, `Basic ${TOKEN}`])
      expect((await ask(at + path, { headers: authorization ? { authorization } : {} })).status).toBe(401)
    const browser = await ask(at + path, { headers: { accept: 'text/html' } })
    expect(browser).toMatchObject({
      status: 303,
      headers: { location: `/login?next=${encodeURIComponent(path)}` },
    })
  })

  test('webhook and health need none', async () => {
    expect((await ask(`${at}/healthz`)).status).toBe(200)
    expect((await ask(`${at}/readyz`)).status).toBe(200)
    // It is the signature that is missed.
    expect((await ask(`${at}/webhooks/enrichment`, { method: 'POST', body: '{}' })).text).toContain(
      'signature',
    )
  })

  test('signing in gives a cookie that no script and no other site can use; signing out takes it away', async () => {
    const own = { 'sec-fetch-site': 'same-origin' }
    expect((await ask(`${at}/login`, form({ token: 'wrong' }, own))).text).toContain('That is not the token.')
    expect(
      (await ask(`${at}/login`, form({ token: TOKEN }, { 'sec-fetch-site': 'cross-site' }))).status,
    ).toBe(403)
    const signedIn = await ask(`${at}/login`, form({ token: TOKEN, next: '/failures' }, own))
    expect(signedIn).toMatchObject({ status: 303, headers: { location: '/failures' } })
    const cookie = String(signedIn.headers['set-cookie'])
    expect(cookie).toMatch(/HttpOnly; SameSite=Strict$/)
    expect(cookie).not.toContain(TOKEN)
    const session = cookie.split(';')[0] ?? ''
    expect((await ask(`${at}/`, { headers: { cookie: session } })).status).toBe(200)
    const forged = session.replace(/=\d/, (text) => `=9${text.slice(1)}`)
    expect((await ask(`${at}/`, { headers: { cookie: forged } })).status).toBe(401)
    expect(String((await ask(`${at}/logout`, { method: 'POST' })).headers['set-cookie'])).toContain(
      'Max-Age=0',
    )
  })

  test('no address elsewhere is gone to after signing in', async () => {
    for (const next of ['https://else.example', '//else.example', '/\\else.example', 'javascript:alert(1)'])
      expect(
        (await ask(`${at}/login`, form({ token: TOKEN, next }, { 'sec-fetch-site': 'same-origin' }))).headers[
          'location'
        ],
      ).toBe('/')
  })
})

describe('without a token', () => {
  test('off loopback everything but webhook and health is closed, and says what to set', async () => {
    const at = await serve({ environment: { host: '0.0.0.0' } })
    for (const path of NOT_MET) {
      const got = await ask(at + path)
      expect(got.status).toBe(403)
      expect(got.text).toContain('FILLRATE_DASHBOARD_TOKEN')
    }
    expect((await ask(`${at}/healthz`)).status).toBe(200)
  })

  test('on loopback it is open, but not under a name that somebody has made point here', async () => {
    const at = await serve()
    expect((await ask(`${at}/`)).status).toBe(200)
    expect((await ask(`${at}/`, { headers: { host: 'evil.example' } })).status).toBe(403)
  })

  test('only its own pages can pause a source', async () => {
    const at = await serve()
    const pause = (headers: Record<string, string>): Promise<Got> =>
      ask(`${at}/sources/contacts/pause`, form({}, headers))
    for (const headers of [
      {},
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ])
      expect((await pause(headers as Record<string, string>)).status).toBe(403)
    expect((await harness.database.pool.query('select from fillrate.pauses')).rowCount).toBe(0)
    expect((await pause({ origin: at })).status).toBe(303)
    expect((await harness.database.pool.query('select from fillrate.pauses')).rowCount).toBe(1)
    expect((await ask(`${at}/sources/contacts/resume`, form({}, { origin: at }))).status).toBe(303)
    expect((await ask(`${at}/sources/else/pause`, form({}, { origin: at }))).status).toBe(404)
  })
})

test('a page may load and run nothing but our own files', async () => {
  const at = await serve()
  const { headers, text } = await ask(`${at}/`)
  expect(headers['content-security-policy']).toMatch(
    /^default-src 'none'; script-src 'self'; style-src 'self'/,
  )
  expect(text).not.toMatch(/<script(?! type="module" src="\/assets)|<style| style=| on\w+=/)
  expect(text).not.toMatch(/(?:src|href|action)="(?!\/|#)/)
  for (const [, path = ''] of text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
    const got = await ask(at + path)
    expect(got.status).toBe(200)
    const again = await ask(at + path, { headers: { 'if-none-match': String(got.headers['etag']) } })
    expect(again).toMatchObject({ status: 304, text: '' })
  }
})

test('/api/status tells what `fillrate status --json` tells', async () => {
  const at = await serve()
  const cli = await createCommandLine(harness.database.url, harness.sandbox, withAccounts)
  try {
    const { stdout } = await runProgram({ cwd: cli.folder, env: cli.environment }, 'status', '--json')
    expect(JSON.parse((await ask(`${at}/api/status`)).text)).toEqual(JSON.parse(stdout))
  } finally {
    await cli.remove()
  }
})

test('/metrics is what Prometheus reads, and its numbers are those of the service and the tables', async () => {
  const at = await serve()
  const { headers, text } = await ask(`${at}/metrics`)
  expect(headers['content-type']).toContain('text/plain; version=0.0.4')
  const lines = text.trim().split('\n')
  const families = new Set(
    lines.flatMap((line) => /^# TYPE (\S+) (?:counter|gauge|histogram)$/.exec(line)?.[1] ?? []),
  )
  const samples = lines.filter((line) => !line.startsWith('#'))
  const sample = /^([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (\d+(?:\.\d+)?(?:e-?\d+)?)$/
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
  const { calls } = harness.sandbox.stats()
  expect(sum('fillrate_requests_total')).toBe(calls.accepted + calls.refused)
  expect(sum('fillrate_rows{source="contacts"')).toBe(60)
  expect(values.get('fillrate_jobs{state="completed"}')).toBe(1)
  expect(values.get('fillrate_write_back_batch_seconds_bucket{le="+Inf"}')).toBe(
    values.get('fillrate_write_back_batch_seconds_count'),
  )
  expect(values.get('fillrate_delivery_lag_seconds_count')).toBe(1)
  const { rows } = await harness.database.pool.query<{ asked: number }>(
    `select count(*)::int as asked from fillrate.lookups where resolved_at is not null`,
  )
  expect(
    sum('fillrate_lookups_total{outcome="found"') + sum('fillrate_lookups_total{outcome="not_found"'),
  ).toBe(rows[0]?.asked)
})
