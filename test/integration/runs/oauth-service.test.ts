import * as circuits from '../../../src/store/rate-limits.ts'
import { createServer } from 'node:http'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { readRequest, type SentRequest } from '../../../src/actions/service-cases.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { describeCondition } from '../../../src/domain/condition.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { toKeyId } from '../../../src/service/api-keys.ts'
import { useTestDatabase } from '../../support/database.ts'
import { listenOnLoopback } from '../../support/loopback.ts'
import { createPeopleTable, toOptions } from '../../support/people-table.ts'

const CLIENT = 'acme-crm:s3cret-of-the-client'
const APP_ID = 'app-id-of-the-crm'
const WEBHOOK_SECRET = 'secret-of-the-addresses-1'
/** What no log and no table may hold: the tokens, too. */
const SECRETS = ['s3cret-of-the-client', APP_ID, WEBHOOK_SECRET, 'token-of-acme']

const database = useTestDatabase()

const acme = defineService({
  name: 'Acme Data',
  auth: { oauth: { tokenUrl: '/oauth/token' } },
  headers: { 'x-app-id': APP_ID },
  person: { path: '/people', form: true, inputs: ['email'], record: { confidence: null } },
  fields: { person: { title: 'text' } },
})
const inBulk: ServiceDefinition = {
  ...acme,
  bulk: { path: '/bulk', size: 20, form: true },
  webhook: { signature: 'none' },
}

interface Options {
  /** How each request for a token is answered, by its number from 1. Default: with a token. */
  readonly issue?: (nth: number) => { readonly status: number; readonly body?: unknown } | null
  /** Calls that a token is good for. Default: any number. */
  readonly uses?: number
  /** Calls in two seconds. Default: any number. */
  readonly limit?: number
}

/** A service with an OAuth client, a second secret, forms, and deliveries that it does not sign. */
async function playAcme({
  issue = () => null,
  uses = Number.POSITIVE_INFINITY,
  limit = 1_000_000,
}: Options = {}) {
  const counts = { tokens: 0, people: 0, bulk: 0, ended: 0, refused: 0, wrong: [] as string[] }
  const used = new Map<string, number>()
  const addresses: string[] = []
  const receipts: Promise<number>[] = []
  let [windowEndsAt, left] = [0, limit]

  const answerToken = (nth: number) =>
    issue(nth) ?? {
      status: 200,
      body: { access_token: `token-of-acme-${nth}`, token_type: 'Bearer', expires_in: 3600 },
    }
  const deliver = async (address: string, results: unknown): Promise<number> => {
    const { status } = await fetch(address, { method: 'POST', body: JSON.stringify(results) })
    return status
  }
  const answer = ({
    path,
    headers,
    body,
  }: SentRequest): { status: number; body?: unknown; headers?: object } => {
    if (path === '/oauth/token') return answerToken(++counts.tokens)
    if (headers['x-app-id'] !== APP_ID || headers['content-type'] !== 'application/x-www-form-urlencoded')
      counts.wrong.push(path)
    const token = String(headers.authorization).replace('Bearer ', '')
    used.set(token, (used.get(token) ?? 0) + 1)
    if (!/^token-of-acme-\d+$/.test(token) || (used.get(token) ?? 0) > uses) {
      counts.ended++
      // It sends back what it got.
      return { status: 401, body: { message: 'token expired', headers } }
    }
    if (Date.now() >= windowEndsAt)
      [windowEndsAt, left] = [Math.ceil((Date.now() + 1) / 2_000) * 2_000, limit]
    const isRefused = --left < 0
    const limits = {
      'x-ratelimit-limit': String(limit),
      'x-ratelimit-remaining': String(Math.max(0, left)),
      'x-ratelimit-reset': String(Math.ceil((windowEndsAt - Date.now()) / 1_000)),
    }
    if (isRefused) counts.refused++
    if (isRefused) return { status: 429, headers: limits }
    const fields = body as { email?: string; emails?: string[]; webhook_url?: string }
    if (path === '/people') {
      counts.people++
      return { status: 200, headers: limits, body: { title: 'Analyst' } }
    }
    const id = `job-${++counts.bulk}`
    const address = fields.webhook_url ?? ''
    addresses.push(address)
    const results = (fields.emails ?? []).map((email) => ({ request_id: email, data: { title: 'Analyst' } }))
    const event = { event_id: id, job_id: id, status: 'completed', results }
    const forged = { ...event, results: results.map((one) => ({ ...one, data: { title: 'Forged' } })) }
    const [job, stolen] = [address.split('/').slice(0, -1).join('/'), addresses[0]?.split('/').at(-1) ?? '']
    receipts.push(
      deliver(job, forged),
      deliver(`${job}/${'A'.repeat(43)}`, forged),
      // The token of another job.
      counts.bulk === 1 ? Promise.resolve(401) : deliver(`${job}/${stolen}`, forged),
      deliver(address, event),
    )
    return { status: 202, headers: limits, body: { job_id: id } }
  }
  const server = createServer((request, response) => {
    void readRequest(request).then((read) => {
      const { status, headers = {}, body } = answer(read)
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      response.end(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
    })
  })
  const { port, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { host: `127.0.0.1:${port}`, counts, addresses, receipts }
}

/** People of a table of their own, a run of them, and what it logged. */
async function open(people: number, { host }: { host: string }, service: ServiceDefinition = acme) {
  const { name, sources } = await createPeopleTable(database, people)
  const lines: string[] = []
  const options = toOptions(
    database,
    service,
    sources,
    { url: `http://${host}` },
    {
      concurrency: 4,
      config: { bulk: {} },
      env: { FILLRATE_API_KEY: CLIENT, FILLRATE_WEBHOOK_SECRET: WEBHOOK_SECRET, ACME_APP_ID: APP_ID },
    },
  )
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const fillrate = await createFillrate({ ...options, migrate: true, log })
  onTestFinished(() => fillrate.close())
  return { name, fillrate, lines }
}

/** Everything that Fillrate has stored, as text. */
async function dump(): Promise<string> {
  const { rows: tables } = await database.pool.query<{ name: string }>(
    `select format('fillrate.%I', relname) as name from pg_class
      where relnamespace = 'fillrate'::regnamespace and relkind in ('r', 'p')`,
  )
  const texts = await Promise.all(
    tables.map(({ name }) => database.pool.query<{ text: string }>(`select t::text as text from ${name} t`)),
  )
  return texts.flatMap(({ rows }) => rows.map(({ text }) => text)).join('\n')
}

const countTitles = async (table: string): Promise<Record<string, number>> => {
  const { rows } = await database.pool.query<{ title: string; n: number }>(
    `select coalesce(title, 'none') as title, count(*)::int as n from ${table} group by 1`,
  )
  return Object.fromEntries(rows.map(({ title, n }) => [title, n]))
}

test('a run with a client, a second secret, forms and unsigned deliveries: all of it is written, and nothing forged', async () => {
  const service = await playAcme()
  const { name, fillrate, lines } = await open(60, service, inBulk)
  const report = await fillrate.run({ budget: 'unlimited', route: 'bulk', waitMs: 30_000 })
  expect(report).toMatchObject({ status: 'completed', rows: { enriched: 60, waiting: 0 } })
  expect(service.counts).toMatchObject({ tokens: 1, bulk: 3, ended: 0, wrong: [] })
  expect(await Promise.all(service.receipts)).toEqual([1, 2, 3].flatMap(() => [401, 401, 401, 200]))
  expect(new Set(service.addresses.map((address) => address.split('/').at(-1))).size).toBe(3)
  expect(await countTitles(name)).toEqual({ Analyst: 60 })
  const tokens = service.addresses.map((address) => address.split('/').at(-1) ?? '')
  const texts = lines.join('') + (await dump())
  expect([...SECRETS, ...tokens].filter((secret) => texts.includes(secret))).toEqual([])
})

test('tokens that end mid-run cost no lookup and no attempt, and the window of the client is not forgotten', async () => {
  const service = await playAcme({ uses: 15, limit: 20 })
  const { fillrate, lines } = await open(60, service)
  // The second replacement within a minute would show that the client is refused: the service issues few enough.
  const report = await fillrate.run({ budget: 'unlimited', limit: 28 })
  expect(report).toMatchObject({ status: 'completed', rows: { enriched: 28, waiting: 0 } })
  expect(report.requests).toMatchObject({ throttled: 0 })
  expect(service.counts).toMatchObject({ tokens: 2, people: 28, refused: 0 })
  expect(service.counts.ended).toBeLessThanOrEqual(4)
  const { rows } = await database.pool.query(
    `select distinct scope from fillrate.rate_limits where scope like $1`,
    [`${service.host} %`],
  )
  expect(rows).toEqual([{ scope: `${service.host} ${toKeyId(CLIENT)}` }])
  const texts = lines.join('') + (await dump())
  expect(SECRETS.filter((secret) => texts.includes(secret))).toEqual([])
})

test('a token endpoint that is down is an outage, in which nothing is sent; the run goes on when it ends', async () => {
  let isDown = true
  const service = await playAcme({ issue: () => (isDown ? { status: 503, body: '<html>busy' } : null) })
  const { name, fillrate } = await open(5, service)
  const running = fillrate.run({ budget: 'unlimited' })
  const scope = `${service.host} ${toKeyId(CLIENT)}`
  await expect.poll(() => circuits.findCircuit(database.db, scope)).not.toBe(null)
  const circuit = await circuits.findCircuit(database.db, scope)
  expect(circuit).toMatchObject({ reason: `token endpoint ${service.host}: HTTP 503`, cause: 'failing' })
  const details = { reason: circuit?.reason ?? '' }
  expect(
    describeCondition({ kind: 'service_failing', service: service.host, source: null, details }, 0).title,
  ).toBe(`${service.host} answers with errors (token endpoint ${service.host}: HTTP 503)`)
  isDown = false
  expect(await running).toMatchObject({ status: 'completed', rows: { enriched: 5 } })
  const { rows } = await database.pool.query(
    `select max(attempts)::int as attempts, sum(unconfirmed_calls)::int as doubt
       from fillrate.lookups where input::text like '%@${name}.example%'`,
  )
  expect(rows).toEqual([{ attempts: 1, doubt: 0 }])
  expect(service.counts.people).toBe(5)
})

test('a client that the token endpoint refuses stops the run, which says so; nothing was sent', async () => {
  const service = await playAcme({ issue: () => ({ status: 401, body: { error: 'invalid_client' } }) })
  const { fillrate } = await open(5, service)
  const report = await fillrate.run({ budget: 'unlimited' })
  const reason = `token endpoint ${service.host}: HTTP 401, invalid_client`
  expect(report).toMatchObject({ status: 'unauthorized', rows: { waiting: 5 } })
  expect(report.reason).toContain(`no access token for the client ${toKeyId(CLIENT)} (${reason})`)
  expect(service.counts).toMatchObject({ tokens: 1, people: 0 })
  const { rows } = await database.pool.query<{ details: object }>(
    `select details from fillrate.conditions where kind = 'key_refused' and service = $1`,
    [service.host],
  )
  expect(rows).toMatchObject([{ details: { reason } }])
})

test('without the second secret a run does not begin', async () => {
  const service = await playAcme()
  const without = { ...acme, headers: { 'x-app-id': process.env['ACME_OTHER'] } }
  await expect(open(5, service, without)).rejects.toMatchObject({
    problems: [{ place: 'service.adapter.headers.x-app-id', found: 'nothing' }],
  })
  expect(service.counts).toMatchObject({ tokens: 0, people: 0 })
})
