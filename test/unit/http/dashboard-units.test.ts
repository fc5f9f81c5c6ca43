import { expect, test } from 'vitest'
import { authorize, isSameOrigin } from '../../../src/http/auth.ts'
import {
  createFormToken,
  readSession,
  sessionCookieOptions,
  signSession,
} from '../../../src/http/sessions.ts'
import { LoginThrottle } from '../../../src/http/login-throttle.ts'
import { isHttps } from '../../../src/http/login.ts'
import { rateLimitStatus } from '../../../src/http/dashboard/pages/overview.ts'
import { funnelSteps } from '../../../src/http/dashboard/funnel.ts'
import { buildUrl, html } from '../../../src/http/dashboard/html.ts'
import { assignLanes } from '../../../src/http/dashboard/pages/runs.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { WorkMetrics } from '../../../src/pipeline/metrics-recorder.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import { ROW_STATES, type RowState } from '../../../src/domain/row.ts'
import { cached } from '../../../src/util/cached.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'

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

const operator = { name: 'anna', role: 'operator', secret: 'secret' } as const
const reader = { name: 'reader', role: 'reader', secret: 'another' } as const

test('a session is valid until it expires, only under the token that signed it', () => {
  const session = signSession(operator, 1_000)
  const week = 7 * 24 * 3_600_000
  expect(readSession(session, [reader, operator], 1_000 + week - 1)).toMatchObject({
    token: operator,
    isExpired: false,
  })
  expect(readSession(session, [operator], 1_000 + week)).toMatchObject({ isExpired: true })
  for (const forged of [
    `9${session}`,
    `${session}0`,
    `${session}.x`,
    `${session}.`,
    session.replace('.', '.0'),
    '',
    '..',
  ])
    expect(readSession(forged, [operator], 1_000)).toBeNull()
  expect(readSession(session, [reader], 1_000)).toBeNull()
  // Two sessions of one moment differ, so that one can be revoked without the other.
  expect(signSession(operator, 1_000)).not.toBe(session)
  expect(sessionCookieOptions(true)).toMatchObject({ secure: true, sameSite: 'lax', httpOnly: true })
})

test('the secret of a form belongs to one session of one token', () => {
  const [one, other] = [signSession(operator, 0), signSession(operator, 0)]
  const secrets = [
    createFormToken(one, operator),
    createFormToken(other, operator),
    createFormToken(one, reader),
    createFormToken(null, null),
  ]
  expect(new Set(secrets).size).toBe(secrets.length)
  expect(createFormToken(one, operator)).toBe(secrets[0])
})

const local = { tokens: [], host: '127.0.0.1', publicUrl: null }
const here = { host: 'localhost:8080' }
test.each([
  ['a token, from loopback', { ...local, tokens: [{ ...operator, secret: 't' }] }, {}, 401],
  [
    'a token, as a bearer',
    { ...local, tokens: [{ ...operator, secret: 't' }], host: '0.0.0.0' },
    { authorization: 'bearer t' },
    true,
  ],
  ['none, on loopback', local, here, true],
  ['none, on loopback in IPv6', { ...local, host: '::1' }, { host: '[::1]:8080' }, true],
  ['none, without a name', local, {}, 403],
  [
    'a token, and an address outside',
    { ...local, tokens: [{ ...operator, secret: 't' }], publicUrl: 'https://a.example' },
    { authorization: 'Bearer t' },
    true,
  ],
  ['none, with the scheme that a proxy adds', local, { ...here, 'x-forwarded-proto': '' }, 403],
  ['none, with the host that a proxy adds', local, { ...here, 'x-forwarded-host': '' }, 403],
] as const)('authorization with %s', (_, door, headers, expected) => {
  const admission = authorize(door, { headers, session: null, now: 0 })
  expect(admission.isAuthorized || admission.status).toBe(expected)
})

test('access says whose token it is, and whether it may change anything', () => {
  const policy = { ...local, tokens: [operator, reader] }
  const access = (secret: string) =>
    authorize(policy, { headers: { authorization: `Bearer ${secret}` }, session: null, now: 0 })
  expect(access('secret')).toMatchObject({ access: { name: 'anna', isOperator: true, method: 'bearer' } })
  expect(access('another')).toMatchObject({ access: { name: 'reader', isOperator: false } })
  const session = signSession(reader, 0)
  expect(authorize(policy, { headers: {}, session, now: 1 })).toMatchObject({
    access: { isOperator: false, method: 'session', formToken: createFormToken(session, reader) },
  })
  expect(authorize(policy, { headers: {}, session, now: Number.MAX_SAFE_INTEGER })).toMatchObject({
    isAuthorized: false,
    reason: 'Your session has ended: sign in again',
    attemptedToken: null,
  })
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
  // A client has all addresses of an IPv6 network.
  for (let n = 0; n < 10; n++) brake.recordFailure(`2001:db8::7:0:0:${n}`, String(n), 0)
  expect(brake.waitMs('2001:db8:0:1::1', 1)).toBe(0)
  expect(brake.waitMs('2001:db8::1', 1)).toBeGreaterThan(0)
  for (let n = 0; n < 10; n++) brake.recordFailure('::ffff:192.0.2.1', String(n), 0)
  expect(brake.waitMs('192.0.2.1', 1)).toBeGreaterThan(0)
  expect(brake.waitMs('::ffff:192.0.2.2', 1)).toBe(0)
  // Some proxies forward the port, another one for each connection.
  for (let n = 0; n < 10; n++) brake.recordFailure(`203.0.113.5:${4000 + n}`, String(n), 0)
  expect(brake.waitMs('203.0.113.5:5000', 1)).toBeGreaterThan(0)
  for (let n = 0; n < 10; n++) brake.recordFailure(`[2001:db8:5::${n}]:443`, String(n), 0)
  expect(brake.waitMs('[2001:db8:5::a]:5000', 1)).toBeGreaterThan(0)
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

const RATE = {
  state: 'learnt',
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
} as const

test.each([
  [true, 7],
  [false, 150],
])('the remaining limit is what a leader reported last, if it is active: %s', async (isLive, left) => {
  const limit = { scope: 'api.example.com:80 "x"\\', limit: 150, windowMs: 2_000, observedAt: 0 }
  const rateLimits = [{ ...limit, status: { ...RATE, isLive } }]
  const text = await renderMetrics(new WorkMetrics(), {
    ...EMPTY_METRICS,
    data: { ...EMPTY_METRICS.data, rateLimits },
  })
  expect(text.split('\n')).toContain(
    String.raw`fillrate_rate_limit_remaining_requests{host="api.example.com:80",key="\"x\"\\"} ${left}`,
  )
})

test('the rate card says which limit is stated too high, and what to do', () => {
  const render = (overstated: RateStatus['overstated']): string => {
    const one = { scope: 'api.example 1a2b', limit: 150, windowMs: 2_000, observedAt: 0 }
    return rateLimitStatus({
      rateLimits: [{ ...one, status: { ...RATE, overstated: overstated ?? null } }],
      readAt: 0,
    }).toString()
  }
  expect(render({ calls: 600, windowMs: 60_000, endpoint: null, granted: 100 })).toContain(
    'stated 600 calls in 1 min, the service grants about 100: change `rate.limit` of the service',
  )
  expect(render(null)).not.toContain('stated')
})
