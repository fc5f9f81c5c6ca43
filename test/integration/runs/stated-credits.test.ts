import pino from 'pino'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readRequest } from '../../../src/actions/service-cases.ts'
import { createStatusReport } from '../../../src/actions/status.ts'
import { openApp } from '../../../src/app.ts'
import { renderStatus } from '../../../src/cli/views/status.ts'
import { Output } from '../../../src/cli/terminal.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { ServiceAnswer, ServiceDelivery } from '../../../src/domain/service/messages.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { serveApp } from '../../support/app-processes.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, listenOnLoopback } from '../../support/loopback.ts'
import { createPeopleTable, toOptions } from '../../support/people-table.ts'

// A service that bills parts of a credit, and states with each answer what it has cost: half of one for a match, 1.5 more for a
// phone, a tenth for some misses, and now and then more than its description says.

const database = useTestDatabase()

const numberOf = (email: string): number => Number(/\d+/.exec(email)?.[0])
function recordOf(email: string): object | null {
  const n = numberOf(email)
  if (n % 3 === 1) return null
  return { title: 'analyst', ...(n % 4 === 0 && { phone: '+47 1' }) }
}
/** In tenths: what the service bills is a whole number of them. */
function tenthsOf(email: string): number {
  const n = numberOf(email)
  const record = recordOf(email)
  if (record === null) return n % 2
  return ('phone' in record ? 20 : 5) + (n % 15 === 0 ? 17 : 0)
}
/** What the description says that an email costs at most. */
const RESERVED = 2

/** Where a service states what results cost. */
type States = 'each' | 'sum'

interface Sent {
  readonly email?: string
  readonly emails?: readonly string[]
  readonly webhook_url?: string
}

/** @param states results, or the sum of a job */
async function openStand(states: States) {
  const billed = new Map<string, number>()
  const requested: string[] = []
  const jobs: (readonly string[])[] = []
  const bill = (email: string): void => {
    requested.push(email)
    billed.set(email, (billed.get(email) ?? 0) + tenthsOf(email))
  }
  const toResults = (emails: readonly string[]) =>
    emails.map((email) => ({
      id: email,
      person: recordOf(email),
      ...(states === 'each' && { cost: tenthsOf(email) / 10 }),
    }))
  const toBody = (emails: readonly string[]) => ({
    // One is left out: it is billed all the same, and asked singly.
    rows: toResults(emails.filter((email) => states === 'each' || numberOf(email) !== 7)),
    ...(states === 'sum' && {
      total: emails.reduce((sum, email) => sum + tenthsOf(email), 0) / 10,
    }),
  })
  const server = createServer((request, response) => {
    void readRequest(request).then(async ({ path, body }) => {
      const { email = '', emails = [], webhook_url: webhookUrl } = body as Sent
      if (path === '/person') {
        bill(email)
        return answerJson(response, 200, { person: recordOf(email), cost: tenthsOf(email) / 10 })
      }
      if (path === '/answer') {
        emails.forEach(bill)
        return answerJson(response, 200, toBody(emails))
      }
      if (path === '/jobs') {
        emails.forEach(bill)
        const id = String(jobs.push(emails))
        answerJson(response, 202, { job_id: id })
        if (webhookUrl === undefined) return
        const delivery = JSON.stringify({ id, ...toBody(emails) })
        const signature = createHmac('sha256', 'secret').update(delivery).digest('hex')
        const post = (text: string, sign: string) =>
          fetch(webhookUrl, { method: 'POST', headers: { 'x-signature': sign }, body: text })
        await post(delivery, signature)
        // The same again, in other bytes: it costs nothing more.
        const again = JSON.stringify({ again: true, id, ...toBody(emails) })
        await post(again, createHmac('sha256', 'secret').update(again).digest('hex'))
        return
      }
      const job = jobs[Number(path.split('/')[2]) - 1] ?? []
      const from = Number(path.split('/')[3] ?? 0)
      const page = toBody(job)
      // Pages of three rows; the sum comes with the last one.
      const isLast = from + 3 >= page.rows.length
      answerJson(response, 200, {
        rows: page.rows.slice(from, from + 3),
        ...(isLast ? { total: page.total } : { next: String(from + 3) }),
      })
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return {
    url,
    requested,
    billed: () => [...billed.values()].reduce((sum, tenths) => sum + tenths, 0) / 10,
  }
}

interface Body {
  readonly rows?: readonly { readonly id: string; readonly person: object | null; readonly cost?: number }[]
  readonly total?: number
  readonly next?: string
}

function toDelivery(body: unknown): ServiceDelivery | undefined {
  const { rows, total } = (body ?? {}) as Body
  const results = rows?.map(({ id, person, cost }) => ({ request_id: id, data: person, credits: cost }))
  return results && { status: 'completed', results, credits: total }
}

const person = {
  path: '/person',
  inputs: ['email'],
  record: { confidence: null },
  read: ({ status, body }) => {
    const { person: record, cost } = (body ?? {}) as { person?: Record<string, string> | null; cost?: number }
    if (status !== 200 || record === undefined) return undefined
    return record === null
      ? { outcome: 'not_found', credits: cost }
      : { outcome: 'found', record, confidence: 1, credits: cost }
  },
} as const satisfies ServiceDefinition['person']

const base = {
  name: 'Parts',
  person,
  credits: { most: 2, of: (_, record) => (record === null ? 0 : record['phone'] ? 2 : 0.5) },
  fields: { person: { title: 'text', phone: 'text' } },
} as const satisfies ServiceDefinition

const MODES: Readonly<Record<'single' | 'answer' | 'webhook' | 'poll', ServiceDefinition>> = {
  single: defineService(base),
  answer: defineService({
    ...base,
    bulk: {
      path: '/answer',
      size: 10,
      results: 'answer',
      read: ({ body }: ServiceAnswer) => {
        const delivery = toDelivery(body)
        return delivery && { outcome: 'results', delivery }
      },
    },
  }),
  webhook: defineService({
    ...base,
    bulk: { path: '/jobs', size: 10 },
    webhook: {
      signature: { header: 'x-signature' },
      read: (body) => ({ jobId: body['id'], ...(toDelivery(body) ?? { results: [] }) }),
    },
  }),
  poll: defineService({
    ...base,
    bulk: { path: '/jobs', size: 10 },
    poll: {
      path: '/jobs/{job_id}/{cursor}',
      after: '50ms',
      read: ({ body }) => {
        const delivery = toDelivery(body)
        const { next } = (body ?? {}) as Body
        if (delivery === undefined) return undefined
        return next === undefined
          ? { outcome: 'results', delivery }
          : { outcome: 'more', delivery, cursor: next }
      },
    },
  }),
}

async function open(
  service: ServiceDefinition,
  stand: { readonly url: string },
  rows: number,
  settings: object = {},
) {
  const { name: table, sources } = await createPeopleTable(database, rows, { title: 'title', phone: 'phone' })
  const options = toOptions(database, service, sources, stand, {
    concurrency: 4,
    config: { attempts: 3, bulk: { grace: '0s', minimum: 2 }, ...settings },
    env: { FILLRATE_WEBHOOK_SECRET: 'secret' },
  })
  return { table, options, fillrate: await createFillrate(options) }
}

/** What is counted, as decimals in text: no number of JavaScript is between the database and the test. */
async function readSpend(source: string): Promise<Record<string, string>> {
  const { rows } = await database.pool.query<Record<string, string>>(
    `select trim_scale(sum(credits))::text as credits, trim_scale(sum(credits_in_doubt))::text as in_doubt
       from fillrate.spend where source = $1`,
    [source],
  )
  return rows[0] ?? {}
}

/** At the same time: each is a service of its own, for which a run mostly waits. */
const inEachMode = (act: (mode: string, definition: ServiceDefinition) => Promise<void>) =>
  Promise.all(Object.entries(MODES).map(([mode, definition]) => act(mode, definition)))

describe.each(['each', 'sum'] as const)('a service that states the cost of %s', (states) => {
  test('what is counted is what it bills, to the tenth', () =>
    inEachMode(async (mode, definition) => {
      const stand = await openStand(states)
      const { table, fillrate } = await open(definition, stand, 47)
      await using _ = fillrate
      const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
      expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
      const billed = stand.billed()
      expect([mode, report.spend.credits]).toEqual([mode, billed])
      expect(await readSpend(table)).toMatchObject({ credits: String(billed) })
      // An input that a job left out was asked singly.
      const isLeftOut = states === 'sum' && mode !== 'single'
      expect([mode, stand.requested.length]).toEqual([mode, isLeftOut ? 48 : 47])
    }))

  test('nothing is left in doubt, also by a service without `credits`', () =>
    inEachMode(async (mode, definition) => {
      const { credits: _none, ...plain } = definition
      for (const described of states === 'sum' ? [definition, plain] : [definition]) {
        const stand = await openStand(states)
        const { table, fillrate } = await open(described, stand, 6)
        await using _ = fillrate
        const report = await fillrate.run({ budget: 100, waitMs: 30_000 })
        expect([mode, report.spend.credits, report.spend.credits_in_doubt]).toEqual([mode, stand.billed(), 0])
        expect(await readSpend(table)).toEqual({ credits: String(stand.billed()), in_doubt: '0' })
      }
    }))
})

test('a budget of whole credits is spent to less than one lookup, and exceeded only by what is stated above the description', async () => {
  const stand = await openStand('each')
  const { table, fillrate } = await open(MODES.single, stand, 200)
  await using _ = fillrate
  const plan = await fillrate.plan({ budget: 20 })
  expect(plan.cost).toMatchObject({ lookups: 10, max_credits: 20, beyond_budget: 190 })
  const report = await fillrate.run({ budget: 20, waitMs: 30_000 })
  expect(report.status).toBe('budget_reached')
  const above = stand.requested.filter((email) => tenthsOf(email) > RESERVED * 10)
  const most = 20 + above.reduce((sum, email) => sum + tenthsOf(email) - RESERVED * 10, 0) / 10
  expect(stand.billed()).toBeLessThanOrEqual(most)
  expect(stand.billed()).toBeGreaterThan(20 - RESERVED)
  expect(await readSpend(table)).toMatchObject({ credits: String(stand.billed()), in_doubt: '0' })
})

test('every place that shows credits shows those of the database', async () => {
  const stand = await openStand('each')
  const settings = { price: { currency: 'EUR', lookup: 0.5 } }
  const { table, options, fillrate } = await open(MODES.single, stand, 47, settings)
  await using _ = fillrate
  const report = await fillrate.run({ budget: 1_000, waitMs: 30_000 })
  const { credits = '' } = await readSpend(table)
  const billed = Number(credits)
  expect(Number.isInteger(billed)).toBe(false)
  expect(billed).toBe(stand.billed())
  expect(report.spend).toMatchObject({ credits: billed, cost: { amount: billed / 2, currency: 'EUR' } })

  // All that the database has spent: of the other tests, too.
  const { rows } = await database.pool.query<{ all: string; running: string }>(
    `select trim_scale(sum(credits))::text as all,
            (select max(id) from fillrate.runs)::text as running from fillrate.spend`,
  )
  const [{ all = '', running = '' } = {}] = rows
  const config = parseConfig(options.config, null)
  await database.query(
    `update fillrate.runs set state = 'running', finished_at = null, options = jsonb_set(options, '{budget}', '1000') where id = ${running}`,
  )
  onTestFinished(
    () =>
      void database.query(
        `update fillrate.runs set state = 'completed', finished_at = now() where id = ${running}`,
      ),
  )
  const status = { conditions: [], ...(await createStatusReport(database.db, config)) }
  const [budget] = status.spend.budgets
  expect(status.spend).toMatchObject({
    today: { credits: Number(all) },
    last_30_days: { credits: Number(all) },
  })
  const left = Math.round((1_000 - billed) * 10) / 10
  expect(budget).toMatchObject({ unit: 'credit', spent: billed, left, limit: 1_000 })
  const text = renderStatus(status, new Output({ write: () => {} }, { color: false }), Date.now()).join('\n')
  expect(text).toContain(`${left} of 1,000 credits left`)
  expect(text).toContain(`${Number(all).toLocaleString('en-US')} credits`)

  const app = await openApp({
    config,
    environment: readEnvironment({ ...options.env, FILLRATE_PORT: '0' }),
    log: pino({ level: 'silent' }),
  })
  const { at, stop } = await serveApp(app)
  try {
    const read = async (path: string): Promise<string> =>
      (await (await fetch(at + path)).text()).replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
    const ofServices = await database.query<{ credits: number }>(
      'select sum(credits)::float8 as credits from fillrate.spend group by service_id',
    )
    const overview = await read('/')
    for (const { credits } of ofServices) expect(overview).toContain(credits.toLocaleString('en-US'))
    expect(await read('/metrics')).toContain(`fillrate_budget_remaining_lookups{budget="run"} ${left}`)
    expect(JSON.parse(await (await fetch(`${at}/api/status`)).text())).toMatchObject({
      spend: { today: { credits: Number(all) } },
    })
  } finally {
    await stop()
    await app.close()
  }
})
