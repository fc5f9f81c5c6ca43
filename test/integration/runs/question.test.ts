import { expect, test } from 'vitest'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { useTestDatabase } from '../../support/database.ts'
import { playService } from '../../support/paid-services.ts'
import { openService } from '../../support/people-table.ts'

// A question is all that varies in a request: rows that share a lookup share its answer, so nothing is sent that is not in its key.

const database = useTestDatabase()

const SERVICE: ServiceDefinition = {
  name: 'Echo',
  person: { path: '/person', record: { confidence: null } },
  bulk: {
    path: '/bulk',
    inputs: ['email', 'linkedin_url', 'name_company'],
    results: 'answer',
    ordered: true,
    body: ({ inputs }) => inputs,
  },
  fields: { person: { title: 'text' } },
}
const INPUTS = { email: 't.email', linkedin_url: 't.profile', name: 't.name', company: 't.company' }
const RUN = { budget: 'unlimited', waitMs: 30_000 } as const

let tables = 0
/** Runs a table of people by a service that finds each input, and titles it with what was sent. */
async function runPeople(route: 'sync' | 'bulk', people: readonly object[]) {
  const table = `people${++tables}`
  await database.query(
    `create table ${table} (id int primary key, email text, profile text, name text, company text, title text);
     insert into ${table} (id, email, profile, name, company)
     select n, p ->> 'email', p ->> 'profile', p ->> 'name', p ->> 'company'
       from jsonb_array_elements('${JSON.stringify(people)}'::jsonb) with ordinality as people (p, n)`,
  )
  const sent: object[] = []
  const answer = (input: object): object => {
    sent.push(input)
    return { title: JSON.stringify(input) }
  }
  const service = await playService(({ path, body }) =>
    path === '/person'
      ? { body: answer(body as object) }
      : { body: (body as object[]).map((input) => ({ data: answer(input) })) },
  )
  const sources = { [table]: { kind: 'person', table, inputs: INPUTS, outputs: { title: 'title' } } }
  await using fillrate = await openService(database, SERVICE, sources, service)
  expect(await fillrate.run({ ...RUN, route })).toMatchObject({ status: 'completed' })
  const titles = await database.query<{ title: string }>(`select title from ${table} order by id`)
  return { sent, titles: titles.map(({ title }) => JSON.parse(title) as object) }
}

test.each(['sync', 'bulk'] as const)(
  'what one row has beside a shared mailbox is not sent for the others: %s',
  async (route) => {
    const email = `info-${route}@engines.example`
    const { sent, titles } = await runPeople(route, [
      { email, profile: 'linkedin.com/in/ada', name: 'Ada Lovelace', company: 'Engines' },
      { email, profile: 'linkedin.com/in/bob', name: 'Bob', company: 'Engines' },
      { email, name: 'Eve', company: 'Engines' },
      { email },
    ])
    expect(sent).toEqual([{ email }])
    expect(titles).toEqual([{ email }, { email }, { email }, { email }])
  },
)
