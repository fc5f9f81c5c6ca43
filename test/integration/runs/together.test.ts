import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { type ForgetTarget, parseForgetTarget } from '../../../src/actions/forget-target.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { JobInput } from '../../../src/domain/service/messages.ts'
import { createFillrate, type Fillrate } from '../../../src/fillrate.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { type PaidService, playService } from '../../support/paid-services.ts'

// Requests that take along what else a row has: it helps to find the person, and changes nothing of what identifies the lookup.

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const INPUTS = { email: 't.email', linkedin_url: 't.profile', name: 't.name', company: 't.company' }

interface Person {
  readonly email?: string
  readonly profile?: string
  readonly name?: string
  readonly company?: string
}

let tables = 0
async function createPeople(...people: readonly Person[]) {
  const table = `people${++tables}`
  await database.query(
    `create table ${table} (id int primary key, email text, profile text, name text, company text, title text)`,
  )
  await addPeople(table, ...people)
  const source = { kind: 'person', table, inputs: INPUTS, outputs: { title: 'title' } }
  return { table, source }
}

const addPeople = (table: string, ...people: readonly Person[]) =>
  database.query(
    `insert into ${table} (id, email, profile, name, company)
     select (select count(*) from ${table}) + n, p ->> 'email', p ->> 'profile', p ->> 'name', p ->> 'company'
       from jsonb_array_elements($1::jsonb) with ordinality as people (p, n)`,
    [JSON.stringify(people)],
  )

/** Fillrate in this process, with one source. */
const open = (
  service: ServiceDefinition,
  { table, source }: Awaited<ReturnType<typeof createPeople>>,
  { url }: Pick<PaidService, 'url'>,
  more: object = {},
) =>
  createFillrate({
    config: {
      service: { adapter: service, concurrency: 2 },
      sources: { [table]: { ...source, ...more } } as never,
      bulk: { grace: '0s' },
    },
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: url, FILLRATE_API_KEY: 'key-1' },
  })

const SINGLE: ServiceDefinition = {
  name: 'Takes all',
  person: { path: '/person', together: true, record: { confidence: null } },
  fields: { person: { title: 'text' } },
}
const RUN = { budget: 'unlimited', waitMs: 30_000 } as const

/**
 * Remembers what was sent. It finds whom `toTitle` has a title of. Until `interrupted` is over it answers nothing, and has the run stopped
 * that calls it: its lookups wait.
 */
async function playPeople(toTitle: (sent: Record<string, string>) => string | null) {
  const sent: Record<string, string>[] = []
  const interrupted = { stopping: new AbortController(), isOver: true }
  const service = await playService(({ path, body }, bill) => {
    if (path !== '/person') throw new Error('another endpoint')
    if (!interrupted.isOver) {
      interrupted.stopping.abort()
      return { status: 503, body: {} }
    }
    const input = body as Record<string, string>
    sent.push(input)
    bill(input['email'] ?? input['linkedin_url'] ?? input['name'] ?? '')
    const title = toTitle(input)
    return title === null ? { status: 404, body: {} } : { body: { title } }
  })
  const interrupt = async (fillrate: Fillrate): Promise<void> => {
    interrupted.isOver = false
    await fillrate.run({ ...RUN, signal: interrupted.stopping.signal })
    interrupted.isOver = true
  }
  return { ...service, sent, interrupt }
}

const ada = {
  email: 'ada@engines.example',
  profile: 'linkedin.com/in/ada',
  name: 'Ada Lovelace',
  company: 'Engines',
}
const ADA = {
  email: 'ada@engines.example',
  linkedin_url: 'https://www.linkedin.com/in/ada',
  name: 'Ada Lovelace',
  company: 'Engines',
}

test('a request takes along what else the row has, normalised, without what is absent or unusable', async () => {
  const people = await createPeople(
    ada,
    { email: 'bob@engines.example', profile: 'linkedin.com/company/engines', name: 'Bob' },
    { profile: 'linkedin.com/in/eve', name: 'Eve', company: 'Engines' },
    { name: 'Dan', company: 'Engines' },
  )
  const service = await playPeople(
    ({ email, linkedin_url: profile, name }) => email ?? profile ?? name ?? null,
  )
  await using fillrate = await open(SINGLE, people, service)
  expect(await fillrate.run(RUN)).toMatchObject({ status: 'completed', rows: { enriched: 4 } })
  expect(service.sent).toHaveLength(4)
  expect(service.sent).toEqual(
    expect.arrayContaining([
      ADA,
      { email: 'bob@engines.example' },
      { linkedin_url: 'https://www.linkedin.com/in/eve', name: 'Eve', company: 'Engines' },
      { name: 'Dan', company: 'Engines' },
    ]),
  )
})

test('the lookup is that of its email: paid once, whatever else rows have, until its answer is due', async () => {
  const people = await createPeople(ada, { ...ada, profile: 'linkedin.com/in/another' })
  const { table } = people
  const service = await playPeople(({ name = '' }) => `Title of ${name}`)
  await using fillrate = await open(SINGLE, people, service)
  expect(await fillrate.run(RUN)).toMatchObject({ rows: { enriched: 2 }, lookups: { requested: 1 } })
  // Of the first row.
  expect(service.sent).toEqual([ADA])

  await database.query(`update ${table} set name = 'Ada King', title = null`)
  expect(await fillrate.run(RUN)).toMatchObject({ rows: { enriched: 2 }, lookups: { requested: 0 } })
  expect(service.sent).toHaveLength(1)

  await database.query(`update ${table} set title = null`)
  await database.query(
    `update fillrate.lookups set refresh_at = now() where key = 'ada@engines.example' and source = $1`,
    [table],
  )
  await database.query(`update fillrate.rows set due_at = now() where source = $1`, [table])
  expect(await fillrate.run(RUN)).toMatchObject({ rows: { enriched: 2 } })
  expect(service.sent.slice(1)).toEqual([{ ...ADA, name: 'Ada King' }])
  expect(await database.query(`select distinct title from ${table}`)).toEqual([
    { title: 'Title of Ada King' },
  ])
})

test('a description that no longer takes them together sends a stored input alone', async () => {
  const people = await createPeople({ ...ada, email: 'alone@engines.example' })
  const service = await playPeople(() => 'Analyst')
  await using first = await open(SINGLE, people, service)
  await service.interrupt(first)
  expect(
    await database.count(
      `fillrate.lookups where input @> '{"email":"alone@engines.example","name":"Ada Lovelace"}'`,
    ),
  ).toBe(1)
  const alone: ServiceDefinition = { ...SINGLE, person: { path: '/person', record: { confidence: null } } }
  await using second = await open(alone, people, service)
  expect(await second.run(RUN)).toMatchObject({ rows: { enriched: 1 } })
  expect(service.sent).toEqual([{ email: 'alone@engines.example' }])
})

describe('a cascade', () => {
  const CASCADE = { cascade: true }
  test('has no further question after a miss to which everything was taken along', async () => {
    const people = await createPeople({ ...ada, email: 'cas@engines.example' })
    const service = await playPeople(() => null)
    await using fillrate = await open(SINGLE, people, service, CASCADE)
    expect((await fillrate.plan()).cost).toMatchObject({ lookups: 1, max_lookups: 1 })
    expect((await fillrate.explain(people.table, '1')).row.lookup_request).toEqual({
      kind: 'email',
      input: { ...ADA, email: 'cas@engines.example' },
    })
    expect(await fillrate.run(RUN)).toMatchObject({
      status: 'completed',
      rows: { not_found: 1 },
      lookups: { requested: 1 },
    })
    expect(service.sent).toEqual([{ ...ADA, email: 'cas@engines.example' }])
  })

  test('goes on to an identifier that the miss was not about, alone with those after it', async () => {
    const email = 'two@engines.example'
    const people = await createPeople({ email, name: 'Ada Lovelace', company: 'Engines' })
    const service = await playPeople(({ email: asked }) => (asked === undefined ? 'Analyst' : null))
    await using fillrate = await open(SINGLE, people, service, CASCADE)
    expect(await fillrate.run(RUN)).toMatchObject({ rows: { not_found: 1 }, lookups: { requested: 1 } })
    // A row with the same address, whose profile that request did not have.
    await addPeople(people.table, { ...ada, email, profile: 'linkedin.com/in/two' })
    expect(await fillrate.run(RUN)).toMatchObject({ rows: { enriched: 1 }, lookups: { requested: 1 } })
    expect(service.sent).toEqual([
      { email, name: 'Ada Lovelace', company: 'Engines' },
      { linkedin_url: 'https://www.linkedin.com/in/two', name: 'Ada Lovelace', company: 'Engines' },
    ])
  })
})

describe('erasure', () => {
  const forget = async (kind: ForgetTarget['kind'], typed: string) => {
    const target = parseForgetTarget(kind, typed)
    if (typeof target === 'string') throw new Error(target)
    return forgetSubject({ db: database.db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
  }
  const stored = (text: string): Promise<number> =>
    database.count(`fillrate.lookups where input::text like '%${text}%'`)

  test('by what a request took along erases the lookup, and what is suppressed is sent no more', async () => {
    const fay = {
      email: 'fay@engines.example',
      profile: 'linkedin.com/in/fay',
      name: 'Fay',
      company: 'Engines',
    }
    const people = await createPeople(fay)
    const service = await playPeople(() => 'Analyst')
    await using fillrate = await open(SINGLE, people, service)
    await fillrate.run(RUN)
    expect(await stored('in/fay')).toBe(1)
    const report = await forget('linkedin_url', 'https://linkedin.com/in/FAY/')
    expect(report).toMatchObject({ erased: { lookups: 1, records: 1, rows: 1 }, remaining: [] })
    expect([await stored('in/fay'), await stored('fay@')]).toEqual([0, 0])

    // The profile beside another address: nothing of the row is sent.
    await addPeople(people.table, { ...fay, email: 'other@engines.example' })
    expect(await fillrate.run(RUN)).toMatchObject({ rows: { suppressed: 1 }, lookups: { requested: 0 } })
    expect(service.sent).toHaveLength(1)
  })

  test('by the address suppresses the profile that was taken along, too', async () => {
    const gil = {
      email: 'gil@engines.example',
      profile: 'linkedin.com/in/gil',
      name: 'Gil',
      company: 'Engines',
    }
    const people = await createPeople(gil)
    const service = await playPeople(() => 'Analyst')
    await using fillrate = await open(SINGLE, people, service)
    await fillrate.run(RUN)
    await forget('email', gil.email)
    await addPeople(people.table, { profile: gil.profile }, { name: 'Gil', company: 'Engines' })
    expect(await fillrate.run(RUN)).toMatchObject({ rows: { suppressed: 1, enriched: 1 } })
    // A name may be that of others.
    expect(service.sent.slice(1)).toEqual([{ name: 'Gil', company: 'Engines' }])
  })

  test('of a lookup that waits takes it back before anything is sent', async () => {
    const hal = { email: 'hal@engines.example', profile: 'linkedin.com/in/hal' }
    const people = await createPeople(hal)
    const service = await playPeople(() => 'Analyst')
    await using fillrate = await open(SINGLE, people, service)
    await service.interrupt(fillrate)
    expect(await stored('in/hal')).toBe(1)
    await forget('linkedin_url', hal.profile)
    await fillrate.run(RUN)
    expect({ sent: service.sent, stored: await stored('in/hal') }).toEqual({ sent: [], stored: 0 })
  })
})

describe('jobs', () => {
  /** Results are named by what `nameOf` takes from each person of a job. */
  const JOBS: ServiceDefinition = {
    ...SINGLE,
    bulk: {
      path: '/bulk',
      size: 10,
      inputs: ['email', 'linkedin_url'],
      results: 'answer',
      body: ({ inputs }) => ({ people: inputs }),
    },
    fields: { person: { title: 'text', email: 'text', linkedin_url: 'text' } },
  }
  async function playJobs(nameOf: (input: JobInput, all: readonly JobInput[]) => string | undefined) {
    const jobs: (readonly JobInput[])[] = []
    const singly: Record<string, string>[] = []
    const service = await playService(({ path, body }) => {
      if (path === '/person') {
        const sent = body as Record<string, string>
        singly.push(sent)
        return { body: { title: `Title of ${sent['email'] ?? sent['linkedin_url'] ?? ''}` } }
      }
      const { people } = body as { people: readonly JobInput[] }
      jobs.push(people)
      const results = people.map((one) => ({
        request_id: nameOf(one, people),
        data: { title: `Title of ${one.email ?? one.linkedinUrl ?? ''}` },
      }))
      return { body: { results: results.toReversed() } }
    })
    return { ...service, jobs, singly }
  }
  const titles = async (table: string): Promise<unknown> =>
    database.query(`select id, title from ${table} order by id`)

  test('carry with each input what else its row has', async () => {
    const people = await createPeople(
      { ...ada, email: 'j1@engines.example' },
      { email: 'j2@engines.example' },
      { profile: 'linkedin.com/in/j3', name: 'Jo', company: 'Engines' },
    )
    const service = await playJobs(({ email, linkedinUrl }) => email ?? linkedinUrl)
    await using fillrate = await open(JOBS, people, service)
    expect(await fillrate.run({ ...RUN, route: 'bulk' })).toMatchObject({ rows: { enriched: 3 } })
    expect(service.singly).toEqual([])
    expect(service.jobs.flat()).toEqual(
      expect.arrayContaining([
        {
          email: 'j1@engines.example',
          linkedinUrl: 'https://www.linkedin.com/in/ada',
          name: 'Ada Lovelace',
          company: 'Engines',
        },
        { email: 'j2@engines.example' },
        { linkedinUrl: 'https://www.linkedin.com/in/j3', name: 'Jo', company: 'Engines' },
      ]),
    )
    expect(await titles(people.table)).toEqual([
      { id: 1, title: 'Title of j1@engines.example' },
      { id: 2, title: 'Title of j2@engines.example' },
      { id: 3, title: 'Title of https://www.linkedin.com/in/j3' },
    ])
  })

  test('of results named by what was taken along none is used for another input', async () => {
    // The profile of the first row identifies the second one.
    const people = await createPeople(
      { email: 'k1@engines.example', profile: 'linkedin.com/in/k2' },
      { profile: 'linkedin.com/in/k2' },
      { email: 'k3@engines.example', profile: 'linkedin.com/in/k3' },
    )
    const service = await playJobs(({ linkedinUrl }) => linkedinUrl)
    await using fillrate = await open(JOBS, people, service)
    expect(await fillrate.run({ ...RUN, route: 'bulk' })).toMatchObject({ rows: { enriched: 3 } })
    // Nothing in the job says which of two results for one name is whose, nor whose name that of the third is.
    expect(service.singly).toEqual(
      expect.arrayContaining([
        { email: 'k1@engines.example', linkedin_url: 'https://www.linkedin.com/in/k2' },
        { email: 'k3@engines.example', linkedin_url: 'https://www.linkedin.com/in/k3' },
      ]),
    )
    expect(await titles(people.table)).toEqual([
      { id: 1, title: 'Title of k1@engines.example' },
      { id: 2, title: 'Title of https://www.linkedin.com/in/k2' },
      { id: 3, title: 'Title of k3@engines.example' },
    ])
  })
})
