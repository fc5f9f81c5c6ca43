import { createHmac, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readRequest } from '../../../src/actions/service-cases.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { releaseExpiredLookups } from '../../../src/store/lookups.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, listenOnLoopback } from '../../support/loopback.ts'
import { createPeopleTable, openService } from '../../support/people-table.ts'

/** A hit costs 2, a phone 5 more, a miss nothing. */
const SERVICE: ServiceDefinition = defineService({
  name: 'Credits',
  person: { path: '/person', inputs: ['email'], record: { confidence: null } },
  bulk: { path: '/bulk', size: 20 },
  webhook: { signature: { header: 'x-signature' } },
  credits: { most: 7, of: (_, record) => (record === null ? 0 : record['phone'] ? 7 : 2) },
  fields: { person: { title: 'text', phone: 'text' } },
})

interface Stand {
  readonly url: string
  /** What the service bills: of a lost answer too. */
  readonly billed: () => number
  readonly requested: readonly string[]
}

const numberOf = (email: string): number => Number(/\d+/.exec(email)?.[0])
/** Every second one is unknown, and every sixth has a phone. */
const recordOf = (email: string) => {
  const n = numberOf(email)
  if (n % 2 === 1) return null
  return { title: 'analyst', ...(n % 6 === 0 && { phone: '+47 1' }) }
}
const creditsOf = (email: string): number => {
  const record = recordOf(email)
  return record === null ? 0 : 'phone' in record ? 7 : 2
}

const database = useTestDatabase()

/** @param lost requests whose answer is cut off although the service worked, by their order */
async function openStand(lost: ReadonlySet<number> = new Set()): Promise<Stand> {
  const requested: string[] = []
  let billed = 0
  let jobs = 0
  const server = createServer((request, response) => {
    void readRequest(request).then(async ({ path, body }) => {
      if (path === '/bulk') {
        const { emails, webhook_url: webhookUrl } = body as { emails: string[]; webhook_url: string }
        const id = `j${++jobs}`
        requested.push(...emails)
        billed += emails.reduce((sum, email) => sum + creditsOf(email), 0)
        answerJson(response, 202, { job_id: id })
        const results = emails.map((email) => ({ request_id: email, data: recordOf(email) }))
        const delivery = JSON.stringify({ event_id: id, job_id: id, status: 'completed', results })
        const signature = createHmac('sha256', 'secret').update(delivery).digest('hex')
        await fetch(webhookUrl, { method: 'POST', headers: { 'x-signature': signature }, body: delivery })
        return
      }
      const { email } = body as { email: string }
      requested.push(email)
      billed += creditsOf(email)
      if (lost.has(requested.length)) return void request.socket.destroy()
      const record = recordOf(email)
      answerJson(response, record === null ? 404 : 200, record ?? { error: 'no match' })
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return {
    url,
    billed: () => billed,
    requested,
  }
}

async function open(rows: number, stand: Stand) {
  const { name, sources } = await createPeopleTable(database, rows, { title: 'title', phone: 'phone' })
  const fillrate = await openService(database, SERVICE, sources, stand, {
    concurrency: 4,
    config: { attempts: 1, price: { currency: 'EUR', lookup: 0.5 }, bulk: {} },
    env: { FILLRATE_WEBHOOK_SECRET: 'secret' },
  })
  onTestFinished(() => fillrate.close())
  return { name, fillrate }
}

describe('a budget in credits', () => {
  test.each(['sync', 'bulk'] as const)(
    'is spent by what answers cost, and never exceeded: %s',
    async (route) => {
      const stand = await openStand()
      const { fillrate } = await open(90, stand)
      const plan = await fillrate.plan({ budget: 60 })
      // 8 lookups of 7 credits at most are certain to be paid.
      expect(plan.cost).toMatchObject({ lookups: 8, max_credits: 60, beyond_budget: 82 })
      const report = await fillrate.run({ budget: 60, route, waitMs: 20_000 })
      expect(report).toMatchObject({ status: 'budget_reached', spend: { credits: stand.billed() } })
      expect(report.reason).toMatch(/^Stopped at the budget of 60 credits; /)
      expect(stand.billed()).toBeLessThanOrEqual(60)
      // What came back was spent again: less than the most that one more lookup may cost is left.
      expect(stand.billed()).toBeGreaterThan(60 - 7)
      expect(report.spend.cost).toEqual({ amount: stand.billed() / 2, currency: 'EUR' })
      expect(report.spend).toMatchObject({ lookups: stand.requested.length, credits_in_doubt: 0 })
      const again = await fillrate.run({ budget: 'unlimited', route, waitMs: 20_000 })
      expect(again).toMatchObject({ status: 'completed' })
      expect(new Set(stand.requested).size).toBe(stand.requested.length)
      const all = Array.from({ length: 90 }, (_, n) => creditsOf(`p${n + 1}`)).reduce((sum, n) => sum + n, 0)
      expect(stand.billed()).toBe(all)
    },
  )

  test('counts the most for an answer that was lost', async () => {
    const stand = await openStand(new Set([3, 4, 5]))
    const { fillrate } = await open(40, stand)
    const report = await fillrate.run({ budget: 100, route: 'sync', waitMs: 20_000 })
    const { credits = 0, credits_in_doubt: inDoubt = 0 } = report.spend
    expect(inDoubt).toBe(3 * 7)
    expect(credits).toBeLessThanOrEqual(stand.billed())
    expect(stand.billed()).toBeLessThanOrEqual(credits + inDoubt)
    expect(stand.billed()).toBeLessThanOrEqual(100)
  })
})

test('a killed process leaves the most of its calls in doubt', async () => {
  const stand = await openStand()
  const { name, fillrate } = await open(6, stand)
  const stopped = new AbortController()
  stopped.abort()
  // As a process leaves it that is killed with four lookups on the wire.
  await fillrate.run({ budget: 42, route: 'sync', signal: stopped.signal }).catch(() => {})
  const { db, pool } = database
  const token = randomUUID()
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id, source, lease_token, leased_until, most)
     select 'email', 'killed' || n, '{}', 'leased', (select max(id) from fillrate.runs), $2, $1, now() - interval '1 s', 7
       from generate_series(1, 4) n`,
    [token, name],
  )
  expect(await releaseExpiredLookups(db, 100)).toBe(4)
  const spent = await pool.query(
    `select sum(lookups)::int as lookups, sum(in_doubt)::int as in_doubt, sum(credits)::int as credits,
            sum(credits_in_doubt)::int as credits_in_doubt
       from fillrate.spend where source = $1`,
    [name],
  )
  expect(spent.rows).toEqual([{ lookups: 0, in_doubt: 4, credits: 0, credits_in_doubt: 28 }])
})
