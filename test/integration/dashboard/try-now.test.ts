import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkApiKey, checkService } from '../../../src/cli/check/service.ts'
import type { ConfigService } from '../../../src/config/config.ts'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { listRefusedKeys, refuseKey } from '../../../src/store/rate-limits.ts'
import { toKeyId } from '../../../src/service/api-keys.ts'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { testEnvironment } from '../../support/environment.ts'
import { DashboardClient } from '../../support/dashboard-client.ts'
import { useHarness } from '../../support/harness.ts'
import { startLoopback } from '../../support/loopback.ts'

// "Try now" and `check`, with the free call for the account that a description names.

const ANNA = { name: 'anna', role: 'operator', secret: 'a-token-that-is-hard-to-guess' } as const
/** A service that knows one key, and what is left of its account. */
const account = { key: 'right', credits: 1_234, calls: 0 }
const service = defineService({
  name: 'Acme Data',
  person: { path: '/people' },
  account: {
    path: '/v2/account',
    credits: (body) => (body as { credits: { left: number } }).credits.left,
  },
})

let at: string
let acme: Awaited<ReturnType<typeof startLoopback>>
const stops: Stop[] = []
const harness = useHarness({ config: { ...crmConfig, service }, prepare: ({ pool }) => createCrm(pool, 5) })
beforeAll(async () => {
  acme = await startLoopback((request, response) => {
    account.calls++
    const isRight = request.headers['authorization'] === `Bearer ${account.key}`
    const isFound = request.url === '/v2/account'
    response.writeHead(isRight ? (isFound ? 200 : 404) : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ credits: { left: account.credits } }))
  })
  const app = await harness.open({
    environment: { baseUrl: acme.url, apiKey: 'right', dashboardTokens: [ANNA] },
  })
  const served = await serveApp(app)
  stops.push(served.stop)
  ;({ at } = served)
})
afterAll(async () => {
  await Promise.all(stops.map((stop) => stop()))
  await acme.close()
})

const host = (): string => new URL(acme.url).host
const path = (): string => `/services/${encodeURIComponent(host())}/try`
const refused = () => listRefusedKeys(harness.database.db)

test('a mended key is proved by one free call, and whatever waits for it goes on', async () => {
  const anna = new DashboardClient(at, ANNA)
  await harness.query('insert into fillrate.services (id, host) values (0, $1)', [host()])
  const scope = `${host()} ${toKeyId('right')}`
  await refuseKey(harness.database.db, { scope, service: 0 }, 'HTTP 401')
  expect((await anna.get('/')).text).toContain(`href="${path()}"`)
  expect((await anna.get(path())).text).toContain('GET /v2/account')
  expect(account.calls).toBe(0)

  account.key = 'neither'
  await anna.confirm(path())
  expect((await anna.get(path())).text).toContain('the service rejected the API key')
  expect(await refused()).toHaveLength(1)
  expect(await harness.query('select try_at from fillrate.services')).toEqual([{ try_at: null }])

  account.key = 'right'
  const before = account.calls
  expect(await anna.confirm(path())).toBe(path())
  expect(account.calls - before).toBe(1)
  expect((await anna.get(path())).text).toContain('the key is accepted by the service; 1,234 credits left')
  expect(await refused()).toHaveLength(0)
  const [{ try_at: tried } = { try_at: null }] = await harness.query<{ try_at: Date | null }>(
    'select try_at from fillrate.services',
  )
  expect(tried).not.toBeNull()

  // Without credits the next lookup would be in vain.
  account.credits = 0
  await anna.confirm(path())
  expect(await harness.query('select try_at from fillrate.services')).toEqual([{ try_at: tried }])
  expect(
    await harness.query(
      `select outcome, detail from fillrate.audit_events where action = 'try now' order by id`,
    ),
  ).toMatchObject([
    { outcome: 'failed' },
    { outcome: 'done', detail: 'the key is accepted by the service; 1,234 credits left' },
    { outcome: 'done', detail: 'the key is accepted by the service; 0 credits left' },
  ])
  expect((await anna.get('/services/nowhere/try')).status).toBe(404)
})

test('`check` says whether the key is accepted, and what is left', async () => {
  const check = (apiKey: string) =>
    checkApiKey({ ...testEnvironment(harness.database.url, acme.url), apiKey }, createService(service))
  account.credits = 7
  expect(await check('right')).toMatchObject({
    name: 'key',
    verdict: 'ok',
    text: 'accepted by the service; 7 credits left',
  })
  expect(await check('wrong')).toMatchObject({
    verdict: 'error',
    problems: [{ place: 'FILLRATE_API_KEY', found: expect.stringContaining('rejected') as string }],
  })
})

test('`check --call` ends the refusal of an account', async () => {
  const environment = { ...testEnvironment(harness.database.url, acme.url), apiKey: 'right' }
  await refuseKey(harness.database.db, { scope: `${host()} main`, service: 0 }, 'HTTP 401')
  const config = { adapter: createService(service), name: null, account: 'main' } as ConfigService
  const called = { input: { email: 'a@x.example' }, service: null }
  const texts: string[] = []
  for await (const { text } of checkService(config, { environment, address: host(), called }))
    texts.push(text)
  expect(texts).toContain('accepted again')
  expect(await refused()).toEqual([])
})
