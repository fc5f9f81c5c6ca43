import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'
import { createPeopleTable, openService } from '../../support/people-table.ts'

const PEOPLE = 30

const database = useTestDatabase()
let service: LoopbackService
beforeAll(async () => {
  service = await startLoopback((_, response) => answerJson(response, 404, { error: 'no match' }))
})
afterAll(() => service.close())

/** Calls in windows that the first request starts, stated in headers. */
function createWindows(limit: number, windowMs: number) {
  let [end, used] = [0, 0]
  return (now: number): { readonly isAccepted: boolean; readonly headers: Record<string, string> } => {
    if (now >= end) [end, used] = [now + windowMs, 0]
    const isAccepted = used < limit
    if (isAccepted) used++
    return {
      isAccepted,
      headers: {
        'x-ratelimit-limit': String(limit),
        'x-ratelimit-remaining': String(limit - used),
        'x-ratelimit-reset': String(Math.ceil(end / 1000)),
        ...(!isAccepted && { 'retry-after': String(Math.ceil((end - now) / 1000)) }),
      },
    }
  }
}

/** A service that states a limit for people and one for companies, and what it has counted. */
async function startLimited(
  windows: Readonly<Record<'person' | 'company', ReturnType<typeof createWindows>>>,
  latencyMs: Readonly<Record<'person' | 'company', number>> = { person: 10, company: 10 },
) {
  const counts = { person: 0, company: 0, refused: 0 }
  const limited = await startLoopback((request, response) => {
    const endpoint = request.url.startsWith('/company') ? 'company' : 'person'
    setTimeout(() => {
      const { isAccepted, headers } = windows[endpoint](Date.now())
      counts[isAccepted ? endpoint : 'refused']++
      answerJson(response, isAccepted ? 404 : 429, { error: isAccepted ? 'no match' : 'too many' }, headers)
    }, latencyMs[endpoint])
  })
  onTestFinished(limited.close)
  return { counts, url: limited.url }
}

let tables = 0
/** A table of people, and one of companies. */
async function createTables(people: number, companies: number) {
  const { name, sources } = await createPeopleTable(database, people)
  const firms = `firms${++tables}`
  await database.query(`
    create table ${firms} (id int primary key, website text, industry text);
    insert into ${firms} select n, 'https://c' || n || '.${firms}.example' from generate_series(1, ${companies}) n`)
  const ofFirms = {
    kind: 'company',
    table: firms,
    inputs: { domain: 't.website' },
    outputs: { industry: 'industry' },
  }
  return { people: name, firms, sources: { ...sources, [firms]: ofFirms } }
}

/** Looks up the people and the companies of two tables. */
const open = (url: string, sources: object, changes: Partial<ServiceDefinition> = {}, concurrency = 32) => {
  const adapter = defineService({
    name: 'By endpoint',
    person: { path: '/person', inputs: ['email'] },
    company: { path: '/company' },
    fields: { person: { title: 'text' }, company: { industry: 'text' } },
    ...changes,
  })
  return openService(database, adapter, sources, { url }, { concurrency })
}

test('limits of endpoints are learnt from their headers, and no call is refused', async () => {
  const { counts, url } = await startLimited({
    person: createWindows(50, 5000),
    company: createWindows(5, 5000),
  })
  const { sources } = await createTables(120, 15)
  await using fillrate = await open(url, sources)
  expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
  expect(counts).toEqual({ person: 120, company: 15, refused: 0 })
})

test('people are looked up although the only company states a smaller limit and a Reset far ahead', async () => {
  // Its answer comes when the people that were in flight with it have used up a window.
  const { counts, url } = await startLimited(
    { person: createWindows(100, 1000), company: createWindows(5, 3_600_000) },
    { person: 10, company: 700 },
  )
  const tables = await createTables(400, 1)
  await using fillrate = await open(url, tables.sources)
  const people = fillrate.run({ sources: [tables.people], budget: 'unlimited' })
  await expect.poll(() => counts.person).toBeGreaterThan(0)
  const company = fillrate.run({ sources: [tables.firms], budget: 'unlimited' })
  expect(await company).toMatchObject({ status: 'completed' })
  expect(await people).toMatchObject({ status: 'completed' })
  expect(counts).toEqual({ person: 400, company: 1, refused: 0 })
})

test('the next leader looks people up while companies wait for the limit that the last one used up', async () => {
  const { counts, url } = await startLimited({
    person: createWindows(100, 1000),
    company: createWindows(80, 3_600_000),
  })
  const tables = await createTables(0, 200)
  /** How many companies a leader looks up that ends without a word once these people are looked up too. */
  const lead = async (people: number): Promise<number> => {
    await database.query(`
      insert into ${tables.people} select n, 'b' || n || '@x.example' from generate_series(1, ${people}) n
          on conflict do nothing`)
    const stopping = new AbortController()
    await using fillrate = await open(url, tables.sources)
    const run = fillrate.run({ budget: 'unlimited', signal: stopping.signal })
    await expect.poll(() => counts.person).toBe(people)
    await expect.poll(listExhausted).toContain('company')
    await database.query(
      `update fillrate.leases set lease_token = gen_random_uuid(), leased_until = now() + interval '1 hour'`,
    )
    stopping.abort()
    expect(await run).toMatchObject({ status: 'interrupted' })
    await database.query('delete from fillrate.leases')
    return counts.company
  }
  const companies = await lead(300)
  expect(await lead(340)).toBe(companies)
  expect(counts.refused).toBe(0)
})

/** The endpoints whose limits may be used up until later, or `all`. */
async function listExhausted(): Promise<string[]> {
  const rows = await database.query<{ key: string }>(`
    select key from fillrate.rate_limits cross join jsonb_each_text(exhausted_until)
     where value::timestamptz > now() + interval '1 minute'`)
  return rows.map(({ key }) => key)
}

test('people are looked up while companies wait for a limit of their own', async () => {
  const stopping = new AbortController()
  const rate = { limit: { company: '2 per hour', person: ['1000 per minute', '5000 per day'] } } as const
  const { sources } = await createTables(PEOPLE, 500)
  await using fillrate = await open(service.url, sources, { rate }, 4)
  const plan = await fillrate.plan()
  expect(plan.time).toMatchObject({ limit: 1000, window_ms: 60_000, ms: 249 * 3_600_000 })
  const run = fillrate.run({ budget: 'unlimited', signal: stopping.signal })
  const countCalls = (path: string): number =>
    service.received.filter(({ url }) => url.split('?')[0] === path).length
  await expect.poll(() => countCalls('/person')).toBe(PEOPLE)
  await expect.poll(() => countCalls('/company')).toBe(2)
  stopping.abort()
  expect(await run).toMatchObject({ status: 'interrupted' })
  expect(service.received).toHaveLength(PEOPLE + 2)
})
