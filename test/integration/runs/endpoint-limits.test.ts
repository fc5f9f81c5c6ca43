import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'

const PEOPLE = 30

let database: TestDatabase
let service: LoopbackService
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(`
    create table accounts (id int primary key, website text, industry text);
    create table contacts (id int primary key, email text, title text);
    insert into accounts select n, 'https://company' || n || '.example' from generate_series(1, 500) n;
    insert into contacts select n, 'p' || n || '@x.example' from generate_series(1, ${PEOPLE}) n`)
  service = await startLoopback((_, response) => answerJson(response, 404, { error: 'no match' }))
})
afterAll(async () => {
  await service.close()
  await database.drop()
})

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

/** Looks up the people and the companies of two tables. */
const createOfTables = (url: string, people: string, firms: string) =>
  createFillrate({
    config: {
      service: {
        adapter: defineService({
          name: 'Stated by endpoint',
          person: { path: '/person', inputs: ['email'] },
          company: { path: '/company' },
          fields: { person: { title: 'text' }, company: { industry: 'text' } },
        }),
      },
      sources: {
        [people]: {
          kind: 'person',
          table: people,
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
        [firms]: {
          kind: 'company',
          table: firms,
          inputs: { domain: 't.website' },
          outputs: { industry: 'industry' },
        },
      },
    },
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: url, FILLRATE_API_KEY: 'key' },
  })

test('limits of endpoints are learnt from their headers, and no call is refused', async () => {
  const { counts, url } = await startLimited({
    person: createWindows(50, 5000),
    company: createWindows(5, 5000),
  })
  await database.query(`
    create table firms (id int primary key, website text, industry text);
    create table people (id int primary key, email text, title text);
    insert into firms select n, 'https://firm' || n || '.example' from generate_series(1, 15) n;
    insert into people select n, 'q' || n || '@x.example' from generate_series(1, 120) n`)
  await using fillrate = await createOfTables(url, 'people', 'firms')
  expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
  expect(counts).toEqual({ person: 120, company: 15, refused: 0 })
})

test('people are looked up although the only company states a smaller limit and a Reset far ahead', async () => {
  // Its answer comes when the people that were in flight with it have used up a window.
  const { counts, url } = await startLimited(
    { person: createWindows(100, 1000), company: createWindows(5, 3_600_000) },
    { person: 10, company: 700 },
  )
  await database.query(`
    create table works (id int primary key, website text, industry text);
    create table staff (id int primary key, email text, title text);
    insert into works select 1, 'https://works.example';
    insert into staff select n, 's' || n || '@x.example' from generate_series(1, 400) n`)
  await using fillrate = await createOfTables(url, 'staff', 'works')
  const people = fillrate.run({ sources: ['staff'], budget: 'unlimited' })
  await expect.poll(() => counts.person).toBeGreaterThan(0)
  const company = fillrate.run({ sources: ['works'], budget: 'unlimited' })
  expect(await company).toMatchObject({ status: 'completed' })
  expect(await people).toMatchObject({ status: 'completed' })
  expect(counts).toEqual({ person: 400, company: 1, refused: 0 })
})

test('the next leader looks people up while companies wait for the limit that the last one used up', async () => {
  const { counts, url } = await startLimited({
    person: createWindows(100, 1000),
    company: createWindows(80, 3_600_000),
  })
  await database.query(`
    create table shops (id int primary key, website text, industry text);
    create table buyers (id int primary key, email text, title text);
    insert into shops select n, 'https://shop' || n || '.example' from generate_series(1, 200) n`)
  /** How many companies a leader looks up that ends without a word once these people are looked up too. */
  const lead = async (people: number): Promise<number> => {
    await database.query(`
      insert into buyers select n, 'b' || n || '@x.example' from generate_series(1, ${people}) n
          on conflict do nothing`)
    const stopping = new AbortController()
    await using fillrate = await createOfTables(url, 'buyers', 'shops')
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
  await using fillrate = await createFillrate({
    config: {
      service: {
        adapter: defineService({
          name: 'By endpoint',
          person: { path: '/person', inputs: ['email'] },
          company: { path: '/company' },
          rate: { limit: { company: '2 per hour', person: ['1000 per minute', '5000 per day'] } },
          fields: { person: { title: 'text' }, company: { industry: 'text' } },
        }),
        concurrency: 4,
      },
      sources: {
        accounts: {
          kind: 'company',
          table: 'accounts',
          inputs: { domain: 't.website' },
          outputs: { industry: 'industry' },
        },
        contacts: {
          kind: 'person',
          table: 'contacts',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    },
    env: {
      DATABASE_URL: database.url,
      FILLRATE_BASE_URL: service.url,
      FILLRATE_API_KEY: 'key',
    },
  })
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
