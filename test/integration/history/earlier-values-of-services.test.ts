import { beforeAll, beforeEach, expect, test } from 'vitest'
import { twoStepSources } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// A row that becomes another person's, filled by two services: no value of the person before stays beside one of the new person.

const services = { acme: {}, beta: {} }
const configWith = (policy: 'blank' | 'tracked' | 'always', when?: 'miss'): object => ({
  services,
  sources: twoStepSources(policy, policy, when),
  budget: 'unlimited',
})

const harness = useHarness({
  config: configWith('blank'),
  services: { acme: { notFoundShare: 1 }, beta: { notFoundShare: 1 } },
  prepare: ({ pool }) =>
    pool
      .query('create table people (id int primary key, email text, title text, seniority text, phone text)')
      .then(() => {}),
})
beforeAll(() => harness.run({ route: 'sync' }))

beforeEach(() =>
  harness.query(
    'truncate people, fillrate.rows, fillrate.lookups, fillrate.changes restart identity cascade',
  ),
)

const know = (service: string, email: string, record: object | null) =>
  harness.query(
    `insert into fillrate.lookups (service_id, kind, key, input, state, resolved_at, refresh_at, confidence, record)
     select id, 'email', $2, jsonb_build_object('email', $2::text), $3, now(), now() + interval '30 d', 0.9, $4
       from fillrate.services where name = $1`,
    [service, email, record === null ? 'not_found' : 'found', record && JSON.stringify({ email, ...record })],
  )
const cells = () => harness.query('select title, seniority, phone from people')
const run = async (config: object) => {
  const app = await harness.open({ config })
  const report = await app.run(runRequest({ route: 'sync' }))
  await app.close()
  return report
}

const ADA = { title: 'Analyst', seniority: 'senior', phone: '+44 1' }
async function becomeBob(config: object, ofAcme: object | null, ofBeta: object | null): Promise<void> {
  await harness.query(`insert into people values (1, 'ada@x.example')`)
  await know('acme', 'ada@x.example', { title: ADA.title, seniority: ADA.seniority })
  await know('beta', 'ada@x.example', { phone: ADA.phone })
  await know('acme', 'bob@x.example', ofAcme)
  await know('beta', 'bob@x.example', ofBeta)
  await run(config)
  expect(await cells()).toEqual([ADA])
  await harness.query(`update people set email = 'bob@x.example'`)
  await run(config)
}
const expectIdle = async (config: object): Promise<void> => {
  for (let night = 0; night < 2; night++)
    expect(await run(config)).toMatchObject({ lookups: { requested: 0 }, cells: { written: 0 } })
}

const BOB = { title: 'Cook', seniority: 'junior' }
test.each(['blank', 'tracked'] as const)(
  'with %s, the second service is asked about the new person, whose values all are',
  async (policy) => {
    const config = configWith(policy)
    await becomeBob(config, BOB, { phone: '+47 2' })
    expect(await cells()).toEqual([{ ...BOB, phone: '+47 2' }])
    await expectIdle(config)
  },
)

test.each(['blank', 'tracked'] as const)(
  'with %s, what the second service does not know of the new person is blank',
  async (policy) => {
    const config = configWith(policy)
    await becomeBob(config, BOB, null)
    expect(await cells()).toEqual([{ ...BOB, phone: null }])
    await expectIdle(config)
  },
)

test('what only the second service knows of the new person ends the values of the first', async () => {
  const config = configWith('blank')
  await becomeBob(config, null, { phone: '+47 2' })
  expect(await cells()).toEqual([{ title: null, seniority: null, phone: '+47 2' }])
})

test('where a second service is for misses, what it filled before goes with the first record', async () => {
  const config = configWith('blank', 'miss')
  await harness.query(`insert into people values (1, 'ada@x.example')`)
  await know('acme', 'ada@x.example', null)
  await know('beta', 'ada@x.example', { phone: ADA.phone })
  await know('acme', 'bob@x.example', BOB)
  await run(config)
  await harness.query(`update people set email = 'bob@x.example'`)
  await run(config)
  expect(await cells()).toEqual([{ ...BOB, phone: null }])
})

test('with always, the second service is asked, too, and its value replaces the one of before', async () => {
  const config = configWith('always')
  await becomeBob(config, BOB, { phone: '+47 2' })
  expect(await cells()).toEqual([{ ...BOB, phone: '+47 2' }])
})

test('with always at the second service alone, it is asked where the first has nothing to fill', async () => {
  const config = { ...configWith('blank'), sources: twoStepSources('blank', 'always') }
  const typed = { title: 'typed', seniority: 'typed' }
  await harness.query(`insert into people values (1, 'ada@x.example', $1, $2)`, Object.values(typed))
  await know('beta', 'ada@x.example', { phone: ADA.phone })
  await know('beta', 'bob@x.example', { phone: '+47 2' })
  await run(config)
  expect(await cells()).toEqual([{ ...typed, phone: ADA.phone }])
  await harness.query(`update people set email = 'bob@x.example'`)
  // What overwrites never empties: the first service is not paid for nothing.
  expect(await run(config)).toMatchObject({ lookups: { requested: 0 }, rows: { enriched: 1 } })
  expect(await cells()).toEqual([{ ...typed, phone: '+47 2' }])
  await expectIdle(config)
})
