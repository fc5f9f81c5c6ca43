import { expect, test } from 'vitest'
import {
  authorize,
  sessionCookieOptions,
  isSameOrigin,
  signSession,
  verifySession,
} from '../../../src/http/auth.ts'
import { LoginThrottle, clientAddress } from '../../../src/http/login-throttle.ts'
import { isHttps } from '../../../src/http/login.ts'
import { callSteps, chartData } from '../../../src/http/dashboard/pages/rate-limit.ts'
import { funnelSteps } from '../../../src/http/dashboard/funnel.ts'
import { buildUrl, html } from '../../../src/http/dashboard/html.ts'
import { assignLanes } from '../../../src/http/dashboard/pages/runs.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { ROW_STATES, type RowState } from '../../../src/domain/row.ts'
import { cached } from '../../../src/util/cached.ts'

test('interpolated values are escaped exactly once', () => {
  const evil = `"><script>alert('&')</script>`
  const escaped = '&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;'
  expect(
    html`<p title="${evil}">${[evil, [null, false, undefined, 0]]}${html`<b>${evil}</b>`}</p>`.text,
  ).toBe(`<p title="${escaped}">${escaped}0<b>${escaped}</b></p>`)
  expect(buildUrl('/row', { source: 'a&b', key: '["x","y=z"]', after: null })).toBe(
    '/row?source=a%26b&key=%5B%22x%22%2C%22y%3Dz%22%5D',
  )
})

test('a funnel loses every state once, and ends with enriched rows', () => {
  const states = Object.fromEntries(ROW_STATES.map((state, n) => [state, n + 1])) as Record<RowState, number>
  const steps = funnelSteps(states)
  const picked = ROW_STATES.reduce((sum, state) => sum + states[state], 0)
  expect(steps[0]).toMatchObject({ name: 'picked', rows: picked })
  expect(steps.at(-1)).toMatchObject({ name: 'enriched', rows: states.enriched })
  const lost = steps.flatMap((step) => step.lost)
  expect(new Set(lost.map((one) => one.state)).size).toBe(ROW_STATES.length - 1)
  expect(picked - lost.reduce((sum, one) => sum + one.rows, 0)).toBe(states.enriched)
})

test('calls are grouped into steps by outcome, each counted once', () => {
  const now = 1_000_000_000
  const calls = ['200', '404', '422', '429', '500', 'none', '401'].map((status, n) => ({
    at: now - n * 10_000,
    endpoint: 'person' as const,
    status,
    calls: 3,
  }))
  const steps = callSteps(calls, now, { lengthMs: 3_600_000 })
  expect(steps).toHaveLength(360)
  const sum = (ending: 'answered' | 'throttled' | 'failed'): number =>
    steps.reduce((all, one) => all + one[ending], 0)
  expect([sum('answered'), sum('throttled'), sum('failed')]).toEqual([9, 3, 9])
  const chart = chartData(calls, now, 3_600_000, { limit: 150, windowMs: 2_000 })
  expect(chart.allowed).toBe(75)
  expect(chart.at).toHaveLength(chart.answered.length)
  expect(chart.at.length).toBeLessThan(60)
})

test('overlapping runs are in separate lanes', () => {
  expect(
    assignLanes(
      [
        { from: 0, to: 10 },
        { from: 5, to: 20 },
        { from: 10, to: 12 },
        { from: 21, to: 22 },
      ],
      1,
    ),
  ).toEqual([0, 1, 0, 0])
})

test('a session is valid until it expires, only under the token that signed it', () => {
  const session = signSession('secret', 1_000)
  const week = 7 * 24 * 3_600_000
  expect(verifySession(session, 'secret', 1_000 + week - 1)).toBe(true)
  expect(verifySession(session, 'secret', 1_000 + week)).toBe(false)
  expect(verifySession(session, 'other', 1_000)).toBe(false)
  expect(verifySession(`9${session}`, 'secret', 1_000)).toBe(false)
  expect(verifySession('', 'secret', 1_000)).toBe(false)
  expect(sessionCookieOptions(true).secure).toBe(true)
})

const local = { token: null, host: '127.0.0.1', publicUrl: null }
const here = { host: 'localhost:8080' }
test.each([
  ['a token, from loopback', { ...local, token: 't' }, {}, 401],
  ['a token, as a bearer', { ...local, token: 't', host: '0.0.0.0' }, { authorization: 'bearer t' }, true],
  ['none, off loopback', { ...local, host: '0.0.0.0' }, { host: '127.0.0.1' }, 403],
  ['none, on loopback', local, here, true],
  ['none, on loopback in IPv6', { ...local, host: '::1' }, { host: '[::1]:8080' }, true],
  ['none, under another name', local, { host: 'localhost.evil.example' }, 403],
  ['none, without a name', local, {}, 403],
  // What nginx sends by default: its own name for us, and no word of itself.
  ['none, and an address outside', { ...local, publicUrl: 'https://hooks.example' }, here, 403],
  [
    'a token, and an address outside',
    { ...local, token: 't', publicUrl: 'https://a.example' },
    { authorization: 'Bearer t' },
    true,
  ],
  ...['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-real-ip'].map(
    (name) => [`none, with the header ${name}`, local, { ...here, [name]: '' }, 403] as const,
  ),
] as const)('authorization with %s', (_, door, headers, expected) => {
  const admission = authorize(door, { headers, session: null, now: 0 })
  expect(admission.isAuthorized || admission.status).toBe(expected)
})

test('a client is identified by what it cannot forge', () => {
  const direct = { isBehindProxy: false }
  const proxied = { isBehindProxy: true }
  const from = (entry: string) => ({ 'x-forwarded-for': entry })
  expect(clientAddress('203.0.113.9', from('198.51.100.1'), proxied)).toBe('203.0.113.9')
  expect(clientAddress('::ffff:203.0.113.9', {}, direct)).toBe('203.0.113.9')
  expect(clientAddress('127.0.0.1', {}, direct)).toBe('127.0.0.1')
  // The nearest proxy wrote the last entry; all before it are what the client says.
  const one = clientAddress('127.0.0.1', from('invented, 198.51.100.1'), proxied)
  expect(one).toBe(clientAddress('127.0.0.1', from('198.51.100.1'), proxied))
  expect(one).not.toBe(clientAddress('127.0.0.1', from('198.51.100.2'), proxied))
  expect(one).not.toBe(clientAddress('10.0.0.5', from('198.51.100.1'), proxied))
  expect(clientAddress('127.0.0.1', {}, proxied)).toBeNull()
})

test('guesses block only their client; repeating a wrong token is not counted', () => {
  const brake = new LoginThrottle()
  for (let n = 0; n < 100; n++) expect(brake.recordFailure('set up wrongly', 'an old token', n)).toBe(false)
  for (let n = 0; n < 9; n++) expect(brake.recordFailure('guesser', String(n), n)).toBe(false)
  expect(brake.recordFailure('guesser', '9', 9)).toBe(true)
  expect(brake.waitMs('guesser', 10)).toBeGreaterThan(0)
  expect(brake.waitMs('set up wrongly', 10)).toBe(0)
  expect(brake.waitMs('guesser', 9 + 60_000)).toBe(0)
  expect(brake.recordFailure('guesser', '10', 9 + 60_000)).toBe(false)
  for (let n = 0; n < 20; n++) expect(brake.recordFailure(null, String(n), 0)).toBe(false)
  expect(brake.waitMs(null, 0)).toBe(0)
})

test.each([
  [{ origin: 'https://fillrate.example' }, true],
  [{ 'x-forwarded-proto': 'https' }, true],
  [{ 'x-forwarded-proto': 'https,http' }, true],
  [{ forwarded: 'for=198.51.100.1;proto=https' }, true],
  [{ origin: 'http://127.0.0.1:8080' }, false],
  [{}, false],
])('the cookie is restricted to TLS if the browser uses it: %o', (headers, expected) => {
  expect(isHttps(headers)).toBe(expected)
})

test('only our own pages, or clients with the token, may change something', () => {
  const host = 'fillrate.example:8080'
  expect(isSameOrigin({ host, 'sec-fetch-site': 'same-origin' }, 'session')).toBe(true)
  expect(isSameOrigin({ host, 'sec-fetch-site': 'same-site', origin: `http://${host}` }, 'session')).toBe(
    false,
  )
  expect(isSameOrigin({ host, 'sec-fetch-site': 'none' }, 'loopback')).toBe(false)
  expect(isSameOrigin({ host, origin: `https://${host}` }, 'session')).toBe(true)
  expect(isSameOrigin({ host, origin: 'https://fillrate.example' }, 'session')).toBe(false)
  expect(isSameOrigin({ host }, 'loopback')).toBe(false)
  expect(isSameOrigin({ host }, 'bearer')).toBe(true)
})

test('a cached value is read once for concurrent callers, again when stale, and at once after a failure', async () => {
  let now = 0
  let reads = 0
  let fails = false
  const read = cached(
    async () => {
      reads++
      now += 200
      if (fails) throw new Error('away')
      return reads
    },
    { minAgeMs: 1_000, now: () => now },
  )
  expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1])
  // Reading took 200 ms, so that it is good for ten times as long.
  now = 2_199
  expect(await read()).toBe(1)
  now = 2_201
  fails = true
  await expect(read()).rejects.toThrow('away')
  fails = false
  expect(await read()).toBe(3)
  read.invalidate()
  expect(await read()).toBe(4)
})

test('the remaining limit is what an active leader reported last', async () => {
  const status = {
    state: 'fixed_window',
    limit: 150,
    windowMs: 2_000,
    windowAtMostMs: null,
    used: 900,
    permitted: 920,
    utilisation: 0.98,
    windowUsed: 143,
    nextWindowAt: null,
    nextWindowInMs: null,
    stallReason: null,
    throttled: 0,
    sharedKey: false,
    reportedAt: new Date(0),
    isLive: true,
  }
  const left = async (isLive: boolean): Promise<string | undefined> =>
    (
      await renderMetrics(
        {
          readAt: 0,
          sources: [],
          runs: [],
          jobs: [],
          calls: [],
          failures: [],
          skippedCells: [],
          rateLimits: [
            { scope: 'api "x"\\', limit: 150, windowMs: 2_000, observedAt: 0, status: { ...status, isLive } },
          ],
          usage: { requested: 0, written: 0, runs: 0 },
        },
        [],
        0,
        [],
      )
    )
      .split('\n')
      .find((line) => line.startsWith('fillrate_rate_limit_remaining_requests'))
  expect(await left(true)).toBe(String.raw`fillrate_rate_limit_remaining_requests{scope="api \"x\"\\"} 7`)
  expect(await left(false)).toBe(String.raw`fillrate_rate_limit_remaining_requests{scope="api \"x\"\\"} 150`)
})
