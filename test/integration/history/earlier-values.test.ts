import { beforeEach, describe, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// What Fillrate wrote for the earlier inputs of a row counts as blank in the pick, in the plan and in the write, and goes with the
// first record for the new ones.

const { contacts } = crmConfig.sources
type Policy = 'blank' | 'tracked' | 'always'
const withPolicies = (title: Policy, others: Policy = title): object => ({
  ...crmConfig,
  sources: {
    contacts: {
      ...contacts,
      outputs: {
        title: { field: 'title', policy: title },
        phone: { field: 'phone', policy: others },
        seniority: { field: 'seniority', policy: others },
      },
    },
  },
})

const harness = useHarness({
  config: withPolicies('blank'),
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 0),
})
beforeEach(() =>
  harness.query(`truncate crm.contacts, fillrate.rows, fillrate.lookups, fillrate.changes,
                  fillrate.skipped_cells restart identity cascade`),
)

interface Person {
  readonly title: string | null
  readonly phone: string | null
  readonly seniority: string | null
}
/** What the service says of an address: a record, or nothing. */
const know = (email: string, record: Partial<Person> | null) =>
  harness.query(
    `insert into fillrate.lookups (kind, key, input, state, resolved_at, refresh_at, confidence, record)
     values ('email', $1, jsonb_build_object('email', $1::text), $2, now(), now() + interval '30 d', 0.9, $3)`,
    [email, record === null ? 'not_found' : 'found', record && JSON.stringify({ email, ...record })],
  )
const ADA: Person = { title: 'Analyst', phone: '+44 1', seniority: 'senior' }
const BOB = { title: 'Cook', phone: null, seniority: 'junior' }
/** A row that Fillrate has filled for ada, and that is bob's since. */
async function becomeBob(config: object, bob: Partial<Person> | null = BOB): Promise<void> {
  await harness.query(`insert into crm.contacts (email) values ('ada@x.example')`)
  await know('ada@x.example', ADA)
  await know('bob@x.example', bob)
  await run(config)
  expect(await cells()).toEqual([ADA])
  await harness.query(`update crm.contacts set email = 'bob@x.example'`)
}
const cells = () => harness.query<Person>('select title, phone, seniority from crm.contacts order by id')
const run = async (config: object = withPolicies('blank')) => {
  const app = await harness.open({ config })
  const report = await app.run(runRequest({ route: 'sync' }))
  await app.close()
  return report
}
const expectIdle = async (config?: object): Promise<void> => {
  for (let night = 0; night < 2; night++) expect(await run(config)).toMatchObject({ rows: { picked: 0 } })
}

test('of 40 complete rows whose addresses change, each is looked up again, once', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'person' || n || '@example.com' from generate_series(1, 40) n`,
  )
  await run()
  const former = await cells()
  await harness.query(`update crm.contacts set email = 'new' || email`)
  const app = await harness.open({ config: withPolicies('blank') })
  const { signal } = new AbortController()
  expect(await app.plan({ ...runRequest({ route: 'sync' }), signal })).toMatchObject({
    sources: [{ picked: 40 }],
  })
  await app.close()
  expect(await run()).toMatchObject({ rows: { picked: 40, enriched: 40 }, lookups: { requested: 40 } })
  const latter = await cells()
  expect(latter.filter(({ phone }, n) => phone === null || phone === former[n]?.phone)).toEqual([])
  await expectIdle()
})

describe('a record for the new inputs', () => {
  test.each(['blank', 'tracked'] as const)(
    'with %s, replaces what was written for the earlier ones, and blanks what it has no value for',
    async (policy) => {
      const config = withPolicies(policy)
      await becomeBob(config)
      const { run: id } = await run(config)
      expect(await cells()).toEqual([{ title: 'Cook', phone: null, seniority: 'junior' }])
      await expectIdle(config)
      const app = await harness.open({ config })
      const { fields } = await app.explain('contacts', '1')
      expect(fields.map(({ column, result }) => [column, result])).toContainEqual([
        'phone',
        `emptied by run ${id}: its value was of earlier inputs`,
      ])
      await app.close()
    },
  )

  test('with always, keeps what it has no value for, and says so', async () => {
    const config = withPolicies('always')
    await becomeBob(config)
    await run(config)
    expect(await cells()).toEqual([{ title: 'Cook', phone: '+44 1', seniority: 'junior' }])
    expect(await harness.query('select state, reason from fillrate.rows')).toEqual([
      { state: 'enriched', reason: 'no new value for phone: what was written for earlier inputs stays' },
    ])
  })

  test('owns a value that is the same for both, and keeps one that a person typed', async () => {
    await becomeBob(withPolicies('blank'), { ...BOB, title: 'Analyst', phone: '+47 2' })
    await harness.query(`update crm.contacts set phone = 'typed'`)
    await run()
    expect(await cells()).toEqual([{ title: 'Analyst', phone: 'typed', seniority: 'junior' }])
    expect(
      await harness.query('select last_written - $1::text as written from fillrate.rows', ['enriched_at']),
    ).toEqual([{ written: { title: 'Analyst', seniority: 'junior' } }])
    expect(await harness.query(`select after from fillrate.changes order by id desc limit 1`)).toEqual([
      { after: { seniority: 'junior', enriched_at: expect.any(String) } },
    ])
    await expectIdle()
  })

  test('is undone to the value of the earlier inputs, which is still one: only new inputs or a new record replace it', async () => {
    await becomeBob(withPolicies('blank'))
    const { run: id } = await run()
    await harness.undo(id)
    expect(await cells()).toEqual([ADA])
    await expectIdle()
    await know('eve@x.example', { title: 'Pilot' })
    await harness.query(`update crm.contacts set email = 'eve@x.example'`)
    await run()
    expect(await cells()).toEqual([{ title: 'Pilot', phone: null, seniority: null }])
    await expectIdle()
  })

  test('is undone and undone again, and the row has its inputs of before', async () => {
    await becomeBob(withPolicies('blank'))
    const { run: id } = await run()
    const undone = await harness.undo(id)
    await harness.undo(undone.run ?? 0)
    expect(await cells()).toEqual([{ title: 'Cook', phone: null, seniority: 'junior' }])
    await harness.query(`update crm.contacts set email = 'ada@x.example'`)
    await run()
    expect(await cells()).toEqual([ADA])
    await expectIdle()
  })
})

test('a miss wipes nothing, and says what stays; it is not looked up again until it is due', async () => {
  await becomeBob(withPolicies('blank'), null)
  await run()
  expect(await cells()).toEqual([ADA])
  expect(await harness.query('select state, reason from fillrate.rows')).toEqual([
    {
      state: 'not_found',
      reason: 'the service found no match; what was written for its earlier inputs stays',
    },
  ])
  await expectIdle()
  // A record comes later, and retention has deleted the changes of before.
  await harness.query(`delete from fillrate.changes; update fillrate.rows set due_at = now();
    update fillrate.lookups set state = 'found', record = '{"title": "Cook"}' where key = 'bob@x.example'`)
  await run()
  expect(await cells()).toEqual([{ title: 'Cook', phone: null, seniority: null }])
  await expectIdle()
})

test('a key that is used again for another person is another row: one value that is the same stays', async () => {
  await becomeBob(withPolicies('blank'))
  await harness.query(`update crm.contacts set title = 'typed', phone = null, seniority = 'senior'`)
  await run()
  expect(await cells()).toEqual([{ title: 'typed', phone: null, seniority: 'senior' }])
  await expectIdle()
})

test('columns that take no NULL get what counts as blank there; one that takes no blank keeps its value', async () => {
  await harness.query(`
    alter table crm.contacts alter phone set default '', alter phone set not null, add tags text[] not null default '{}',
      add facts jsonb not null default '{"x": 1}', add size int check (size is not null or email <> 'bob@x.example')`)
  const config = {
    ...crmConfig,
    sources: {
      contacts: {
        ...contacts,
        outputs: {
          title: 'title',
          phone: 'phone',
          tags: { field: 'tags', unlisted: true },
          'facts.city': { field: 'city', unlisted: true },
          size: { field: 'size', unlisted: true },
        },
      },
    },
  }
  try {
    await harness.query(`insert into crm.contacts (email) values ('ada@x.example')`)
    await know('ada@x.example', { ...ADA, tags: ['a'], city: 'London', size: 3 } as object)
    await know('bob@x.example', { title: 'Cook' })
    await run(config)
    await harness.query(`update crm.contacts set email = 'bob@x.example'`)
    await run(config)
    expect(await harness.query('select title, phone, tags, facts, size from crm.contacts')).toEqual([
      { title: 'Cook', phone: '', tags: [], facts: { x: 1, city: null }, size: 3 },
    ])
    await harness.undo(await harness.scalar<number>('select max(id)::int from fillrate.runs'))
    expect(await harness.query('select title, phone, tags, facts, size from crm.contacts')).toEqual([
      { title: 'Analyst', phone: '+44 1', tags: ['a'], facts: { x: 1, city: 'London' }, size: 3 },
    ])
  } finally {
    await harness.query(
      `alter table crm.contacts alter phone drop not null, alter phone drop default, drop tags, drop facts, drop size`,
    )
  }
})
