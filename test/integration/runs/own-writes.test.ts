import { afterEach, describe, expect, test } from 'vitest'
import { startDaemon } from '../../support/app-processes.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

/*
 * Columns that are input and output: what Fillrate writes is no input. Each test counts what the service saw.
 */

let harness: Harness
afterEach(() => harness.close())

const INPUTS = {
  email: 't.email',
  linkedin_url: 't.linkedin',
  name: "concat_ws(' ', t.first_name, t.last_name)",
  company: 't.company',
}
const OUTPUTS = { linkedin: 'linkedin', email: 'email', title: 'title', first_name: 'name.first' }
const people = { kind: 'person', table: 'crm.people', inputs: INPUTS, outputs: OUTPUTS, minConfidence: 0 }

/** 30 rows: by email, by profile URL, by name and company; blanks are NULL or empty. */
const CREATE = `
  create schema crm;
  create table crm.people (
    id int primary key, email text, linkedin text not null default '', first_name text, last_name text, company text,
    title text, phone text, attributes jsonb not null default '{}', account_id int
  );
  insert into crm.people (id, email, linkedin, first_name, last_name, company)
  select n, case when n % 3 = 0 then 'person' || n || '@example.com' when n % 2 = 0 then '' end,
         case when n % 3 = 1 then 'https://linkedin.com/in/someone-' || n else '' end,
         case when n % 3 = 2 then 'Ada' end, case when n % 3 = 2 then 'Lovelace' || n end,
         case when n % 3 = 2 then 'Acme ' || n end
    from generate_series(1, 30) n;`

async function start(sources: object, sql = ''): Promise<void> {
  harness = await startHarness({
    config: { sources, budget: 'unlimited' },
    sandbox: { notFoundShare: 0, missingShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(CREATE + sql)
    },
  })
}

/** Runs, and returns what it picked, requested and wrote. */
async function run(sources: readonly string[] = []) {
  const { run: id, rows, lookups, cells } = await harness.run({ sources: [...sources] })
  return { id, picked: rows.picked, requested: lookups.requested, written: cells.written }
}

const NOTHING = { picked: 0, requested: 0, written: 0 }

const requestedInputs = (): string[] => {
  const { inputs } = harness.sandbox.stats({ inputs: true })
  return Object.keys(inputs.all ?? {}).toSorted()
}

const snapshot = async (): Promise<string> =>
  (
    await harness.query<{ all: string }>(
      `select json_agg(to_jsonb(t) order by id)::text as all from crm.people t`,
    )
  )[0]?.all ?? ''

/** Makes every row and record due, as after `refreshAfter`. */
const expire = async (): Promise<void> => {
  await harness.query(`update fillrate.rows set due_at = now()`)
  await harness.query(`update fillrate.lookups set refresh_at = now()`)
}

test('a column that no source names is dropped while a run is under way', async () => {
  const accounts = {
    kind: 'company',
    table: 'crm.accounts',
    inputs: { domain: 't.website' },
    outputs: { industry: 'industry', website: 'domain' },
  }
  const members = {
    kind: 'person',
    table: 'crm.people',
    inputs: { name: 't.first_name', company: 'a.website' },
    joins: 'left join crm.accounts a on a.id = t.account_id',
    where: 't.phone is null',
    outputs: { title: 'title', 'attributes.level': 'seniority' },
    touch: { phone: `'called'` },
  }
  await start(
    { people, accounts, members },
    `alter table crm.people add unnamed text default 'x';
     create table crm.accounts (id int primary key, website text, industry text, unnamed text);
     insert into crm.accounts select n, 'c' || n || '.example' from generate_series(1, 30) n;
     update crm.people set account_id = id, first_name = 'Ada ' || id;
     create function refuse() returns trigger language plpgsql as $$ begin raise 'not %', new.email; end $$;
     create trigger refuse before update on crm.people for each row when (new.id = 3) execute function refuse();`,
  )
  const app = await harness.open()
  await harness.query(
    'alter table crm.people drop column unnamed; alter table crm.accounts drop column unnamed',
  )
  const { status, rows } = await app.run(runRequest())
  expect({ status, failed: rows.failed }).toEqual({ status: 'completed', failed: 0 })
  // The one that the trigger refuses, as a person of both sources.
  expect(rows.write_rejected).toBe(2)
  expect(rows.enriched).toBeGreaterThan(70)

  // A column that another source writes is that source's alone.
  await harness.query(`
    alter table crm.accounts drop column industry;
    update crm.people set first_name = 'Eve ' || id, phone = null, title = null where id > 20`)
  const next = await app.run(runRequest({ sources: ['members'] }))
  await app.close()
  expect(next).toMatchObject({ status: 'completed', rows: { picked: 10, failed: 0 } })
})

test('what a source reads of a joined table as a whole row is what the user gave', async () => {
  const accounts = {
    kind: 'company',
    table: 'crm.accounts',
    inputs: { domain: 't.website' },
    outputs: { industry: 'industry' },
  }
  const members = {
    kind: 'person',
    table: 'crm.people',
    inputs: {
      name: 't.first_name',
      company: `to_jsonb(a) ->> 'website' || coalesce(to_jsonb(a) ->> 'industry', '')`,
    },
    joins: 'join crm.accounts a on a.id = t.account_id',
    outputs: { title: 'title' },
  }
  await start(
    { accounts, members },
    `create table crm.accounts (id int primary key, website text, industry text);
     insert into crm.accounts select n, 'c' || n || '.example' from generate_series(1, 30) n;
     update crm.people set account_id = id, first_name = 'Ada ' || id;`,
  )
  expect(await run()).toMatchObject({ picked: 60 })
  expect(await run()).toMatchObject(NOTHING)
})

describe('an input that is also an output', () => {
  test('is filled, and requests nothing again in the next run, after undo, or in remap', async () => {
    await start({ people })
    const before = await snapshot()
    const first = await run()
    expect(first).toMatchObject({ picked: 30, requested: 30 })
    expect(await harness.query(`select 1 from crm.people where linkedin = '' or email is null`)).toEqual([])
    expect(await run()).toMatchObject(NOTHING)

    expect(await harness.remap('people', { dryRun: true })).toMatchObject({
      examined: { rows: 30, unchanged: 30, inputs_changed: 0 },
    })
    expect(await harness.remap('people')).toMatchObject({
      examined: { changed: 0 },
      report: { lookups: { requested: 0 } },
    })

    const undone = await harness.undo(first.id)
    expect(undone.changes).toMatchObject({ restored: 30, kept: 0 })
    expect(await snapshot()).toBe(before)
    expect(await run()).toMatchObject(NOTHING)
    expect(await harness.remap('people', { dryRun: true })).toMatchObject({
      examined: { rows: 30, changed: 30, undone: 30 },
    })

    const again = await harness.undo(undone.run ?? 0)
    expect(again.changes).toMatchObject({ restored: 30 })
    expect(await run()).toMatchObject({ requested: 0, written: 0 })
    expect(harness.calls()).toBe(30)
  })

  test('is looked up with what the user gave when it is due, and refreshed in place', async () => {
    await start({ people })
    await run()
    const inputs = requestedInputs()
    await expire()
    expect(await run()).toMatchObject({ picked: 0 })
    await harness.query(`update crm.people set title = null`)
    await expire()
    harness.sandbox.reset()
    expect(await run()).toMatchObject({ picked: 30, requested: 30, written: 30 })
    expect(requestedInputs()).toEqual(inputs)
  })

  test('is looked up again once a person has changed it', async () => {
    await start({ people })
    await run()
    harness.sandbox.reset()
    await harness.query(
      `update crm.people set linkedin = 'https://linkedin.com/in/typed-by-hand', title = null where id = 2`,
    )
    expect(await run()).toMatchObject({ picked: 1, requested: 1, written: 0 + 1 })
    expect(requestedInputs()).toEqual([expect.stringContaining('typed-by-hand')])
    expect(await run()).toMatchObject(NOTHING)
  })

  test('that a person has erased is not written again', async () => {
    await start({ people })
    await run()
    await harness.query(`update crm.people set linkedin = '' where id = 2`)
    await harness.query(`update crm.people set email = null where id = 4`)
    expect(await run()).toMatchObject(NOTHING)
  })
})

test('a row of which the database rejects one cell keeps what was filled beside it', async () => {
  await start(
    { people },
    `alter table crm.people add constraint untitled check (id % 5 <> 0 or title is null);`,
  )
  expect(await run()).toMatchObject({ picked: 30, requested: 30 })
  expect(await harness.query(`select 1 from crm.people where linkedin = '' or email is null`)).toEqual([])
  expect(await harness.query(`select 1 from crm.people where title is null`)).toHaveLength(6)
  expect(await run()).toMatchObject(NOTHING)
})

/** A second source on the same table, by the columns that the first one fills. */
const byUrl = {
  kind: 'person',
  table: 'crm.people',
  inputs: { email: 't.email', linkedin_url: 't.linkedin' },
  outputs: { phone: 'phone' },
  minConfidence: 0,
}
/** The first without the identifiers that the second one reads. */
const byName = {
  ...people,
  inputs: { name: INPUTS.name, company: INPUTS.company },
  outputs: { linkedin: 'linkedin', email: 'email' },
}

describe('two sources on one table', () => {
  test('one requests nothing for what the other has filled, before or after', async () => {
    await start({ byUrl, byName })
    expect(await run(['byUrl'])).toMatchObject({ picked: 30, requested: 20 })
    expect(await run(['byName'])).toMatchObject({ picked: 30, requested: 10, written: 20 })
    expect(await run(['byUrl'])).toMatchObject({ ...NOTHING })
    expect(await run()).toMatchObject(NOTHING)
    await expire()
    harness.sandbox.reset()
    await run(['byUrl'])
    expect(requestedInputs()).toEqual([])
    const app = await harness.open()
    const { row, state, next } = await app.explain('byUrl', '2')
    expect(row.inputs).toMatchObject({ email: expect.toSatisfy((email) => !email), linkedin_url: '' })
    expect(Object.keys(row.filled_inputs).toSorted()).toEqual(['email', 'linkedin_url'])
    expect(state).toMatchObject({ state: 'invalid_input', inputs_changed: false })
    expect(state?.reason).toContain('linkedin_url: filled by Fillrate')
    expect(next).toBeDefined()
  })

  test('a row that is first met after it was filled has no input of its own', async () => {
    await start({ byName, byUrl })
    await run(['byName'])
    harness.sandbox.reset()
    expect(await run(['byUrl'])).toMatchObject({ picked: 30, requested: 20 })
    expect(requestedInputs().filter((input) => input.includes('lovelace'))).toEqual([])
    expect(
      await harness.query(
        `select reason, count(*)::int as count from fillrate.rows where state = 'invalid_input' and source = 'byUrl' group by 1`,
      ),
    ).toEqual([{ reason: expect.stringContaining('filled by Fillrate'), count: 10 }])
    await harness.query(
      `update crm.people set linkedin = 'https://linkedin.com/in/typed-by-hand' where id = 2`,
    )
    expect(await run(['byUrl'])).toMatchObject({ picked: 1, requested: 1 })
  })

  test('a value that the other has written is shown as its own', async () => {
    const again = { ...byUrl, inputs: { email: 't.email' }, outputs: { title: 'title', phone: 'phone' } }
    await start(
      { people: { ...people, key: 'code' }, again },
      `alter table crm.people add code text not null default gen_random_uuid() unique;`,
    )
    const { id } = await run(['people'])
    await run(['again'])
    const app = await harness.open()
    const { row, fields } = await app.explain('again', '3')
    expect(row.columns).toMatchObject([
      { column: 'title', written_by_fillrate: true, written_by_source: 'people', written_by: id },
      { column: 'phone', written_by_fillrate: true, written_by_source: 'again', written_by: id + 1 },
    ])
    expect(fields[0]).toMatchObject({
      result: `not written: the column holds the value of run ${id} (source people)`,
    })
  })

  test('with keys of their own, and undone in either order', async () => {
    await start(
      { byName: { ...byName, key: 'code' }, byUrl },
      `alter table crm.people add code text not null default gen_random_uuid() unique;`,
    )
    const before = await snapshot()
    const urls = await run(['byUrl'])
    const names = await run(['byName'])
    await harness.undo(urls.id)
    expect(await run()).toMatchObject(NOTHING)
    await harness.undo(names.id)
    expect(await snapshot()).toBe(before)
    expect(await run()).toMatchObject(NOTHING)
    expect(harness.calls()).toBe(30)
  })
})

describe('the user’s own triggers and expressions', () => {
  const TRIGGER = `
    create function crm.derive() returns trigger language plpgsql as $$
    begin
      new.email := lower(new.email);
      new.linkedin := replace(new.linkedin, 'www.', '');
      new.full_name := upper(concat_ws(' ', new.first_name, new.last_name));
      return new;
    end $$;`
  const derived = {
    ...people,
    inputs: { ...INPUTS, email: 'coalesce(t.email_lower, t.email)', name: 't.full_name' },
  }
  const COLUMNS = `
    alter table crm.people add full_name text, add email_lower text generated always as (lower(email)) stored;
    update crm.people set full_name = nullif(concat_ws(' ', first_name, last_name), '');`

  test('what they change with a write is no input', async () => {
    await start(
      { people: derived },
      `${COLUMNS} ${TRIGGER} create trigger derive before update on crm.people for each row execute function crm.derive();`,
    )
    const first = await run()
    expect(first).toMatchObject({ picked: 30, requested: 30 })
    const inputs = requestedInputs()
    expect(
      await harness.query(`select 1 from crm.people where email_lower is null or full_name = ''`),
    ).toEqual([])
    expect(await run()).toMatchObject(NOTHING)
    await harness.undo(first.id)
    expect(await run()).toMatchObject(NOTHING)
    await harness.query(`delete from fillrate.lookups`)
    await expire()
    harness.sandbox.reset()
    await run()
    expect(requestedInputs()).toEqual(inputs)
  })

  test('so is what an AFTER trigger changes in the row', async () => {
    await start(
      { people: derived },
      `${COLUMNS}
      create function crm.derive() returns trigger language plpgsql as $$
      begin
        update crm.people set full_name = 'after ' || coalesce(new.full_name, '-'), linkedin = linkedin || '/'
         where id = new.id and linkedin not like '%/' and linkedin <> '';
        return null;
      end $$;
      create trigger derive after update on crm.people for each row when (pg_trigger_depth() = 0) execute function crm.derive();`,
    )
    expect(await run()).toMatchObject({ picked: 30, requested: 30 })
    expect(await harness.query(`select 1 from crm.people where full_name not like 'after %'`)).toEqual([])
    expect(await run()).toMatchObject(NOTHING)
  })
})

test('a key inside jsonb is input and output', async () => {
  const inJson = {
    ...people,
    inputs: {
      ...INPUTS,
      email: `t.attributes -> 'contact' ->> 'email'`,
      linkedin_url: `t.attributes ->> 'linkedin'`,
    },
    outputs: { 'attributes.contact.email': 'email', 'attributes.linkedin': 'linkedin', title: 'title' },
  }
  await start(
    { people: inJson },
    `update crm.people set attributes = case when email <> '' then jsonb_build_object('contact', jsonb_build_object('email', email))
       when linkedin <> '' then jsonb_build_object('linkedin', linkedin, 'contact', null) when id % 4 = 0 then '{"linkedin": "", "other": 1}' else '{}' end;`,
  )
  const before = await snapshot()
  const first = await run()
  expect(first).toMatchObject({ picked: 30, requested: 30 })
  expect(
    await harness.query(`select 1 from crm.people where attributes -> 'contact' ->> 'email' is null`),
  ).toEqual([])
  expect(await run()).toMatchObject(NOTHING)
  await harness.query(`update crm.people set attributes = attributes || '{"tags": ["vip"]}' where id = 2`)
  expect(await run()).toMatchObject(NOTHING)
  await harness.query(`update crm.people set attributes = attributes - 'tags' where id = 2`)
  await harness.undo(first.id)
  expect(await snapshot()).toBe(before)
  expect(await run()).toMatchObject(NOTHING)
})

describe('another table that a source fills', () => {
  const ACCOUNTS = `
    create table crm.accounts (id int primary key, website text, name text);
    insert into crm.accounts select n, 'https://www.company' || n || '.example', case when n % 2 = 0 then 'Typed ' || n end
      from generate_series(1, 30) n;
    update crm.people set account_id = id;`
  const accounts = {
    kind: 'company',
    table: 'crm.accounts',
    inputs: { domain: 't.website' },
    outputs: { name: 'name' },
  }
  const atAccount = {
    ...people,
    joins: 'left join crm.accounts a on a.id = t.account_id',
    inputs: { email: 't.email', name: INPUTS.name, company: 'a.name' },
  }

  test('by a join: the company that Fillrate has named is no input', async () => {
    await start({ people: atAccount, accounts }, ACCOUNTS)
    // By e-mail, or by name and the name of the company that a person typed.
    expect(await run(['people'])).toMatchObject({ picked: 30, requested: 10 + 5 })
    expect(await run(['accounts'])).toMatchObject({ requested: 15, written: 15 })
    expect(await run(['people'])).toMatchObject(NOTHING)
    await harness.query(`update crm.accounts set name = 'Typed since' where id = 5`)
    expect(await run(['people'])).toMatchObject({ picked: 1, requested: 1 })
  })

  test.each([
    ['a sub-select', '(select a.name from crm.accounts as a where a.id = t.account_id)'],
    [
      'a sub-select without an alias',
      '(select name from crm.accounts where accounts.id = t.account_id limit 1)',
    ],
    [
      'a list of tables',
      '(select a.name from crm.people p, crm.accounts a where p.id = t.id and a.id = p.account_id)',
    ],
  ])('by %s', async (_, company) => {
    await start({ people: { ...people, inputs: { ...atAccount.inputs, company } }, accounts }, ACCOUNTS)
    expect(await run(['accounts'])).toMatchObject({ requested: 15, written: 15 })
    expect(await run(['people'])).toMatchObject({ picked: 30, requested: 10 + 5 })
    expect(await run()).toMatchObject(NOTHING)
  })

  test('a related table filled by a source of its own costs no call, and looks nothing up by what was filled', async () => {
    const of = (column: string): string => `(select p.${column} from crm.people p where p.id = t.person_id)`
    await start(
      {
        people,
        addresses: {
          kind: 'person',
          table: 'crm.addresses',
          inputs: {
            email: of('email'),
            linkedin_url: of('linkedin'),
            name: `(select concat_ws(' ', p.first_name, p.last_name) from crm.people p where p.id = t.person_id)`,
            company: of('company'),
          },
          outputs: { email: 'email' },
          minConfidence: 0,
        },
      },
      `create table crm.addresses (id int primary key, person_id int, email text);
       insert into crm.addresses (id, person_id) select id, id from crm.people;`,
    )
    expect(await run(['people'])).toMatchObject({ requested: 30 })
    expect(await run(['addresses'])).toMatchObject({ picked: 30, requested: 0, written: 30 })
    expect(await run()).toMatchObject(NOTHING)
    expect(harness.calls()).toBe(30)
  })

  test('other rows of the same table, and a join by a column that is filled', async () => {
    await start(
      {
        people: {
          ...people,
          joins: `left join crm.people m on m.id = t.account_id left join crm.people twin on twin.linkedin = nullif(t.linkedin, '') and twin.id <> t.id`,
          inputs: { email: 't.email', name: INPUTS.name, company: 'coalesce(m.title, twin.company)' },
        },
      },
      'update crm.people set account_id = id % 30 + 1;',
    )
    // Everyone's company is the manager's title, which is blank.
    expect(await run()).toMatchObject({ requested: 10 })
    expect(await run()).toMatchObject(NOTHING)
    await harness.query(`update crm.people set linkedin = 'https://linkedin.com/in/same' where id in (2, 5)`)
    expect(await run()).toMatchObject({ picked: 2, requested: 2 })
    expect(await run()).toMatchObject(NOTHING)
  })
})

test('the triggers record what a write changes for other sources, and not the write itself', async () => {
  await start({ people: { ...people, follow: true }, byUrl: { ...byUrl, follow: true } })
  const app = await harness.open()
  await app.follow('install', 'people')
  await app.follow('install', 'byUrl')
  const recorded = () =>
    harness.query(`select source, cardinality(keys) as keys from fillrate.changed_rows order by 1`)
  const { id } = await run(['people'])
  const bySource = new Set((await recorded()).map((one) => (one as { source: string }).source))
  expect([...bySource]).toEqual(['byUrl'])
  await harness.query('delete from fillrate.changed_rows')
  await harness.undo(id)
  expect(new Set((await recorded()).map((one) => (one as { source: string }).source))).toEqual(
    new Set(['byUrl']),
  )
  await harness.query('delete from fillrate.changed_rows')
  await harness.query(`update crm.people set linkedin = 'https://linkedin.com/in/typed' where id = 3`)
  expect(await recorded()).toEqual([
    { source: 'byUrl', keys: 1 },
    { source: 'people', keys: 1 },
  ])
})

test('live sync requests and writes nothing again', async () => {
  await start({ people: { ...people, follow: true }, byUrl: { ...byUrl, follow: true } })
  const app = await harness.open({ environment: { webhookSecrets: [] } })
  await app.follow('install', 'people')
  await app.follow('install', 'byUrl')
  const stop = startDaemon(app)
  const queued = (): Promise<number> => harness.count('fillrate.changed_rows')
  const waiting = (): Promise<number> => harness.count(`fillrate.rows where state = 'waiting'`)
  const settled = async (): Promise<void> => {
    await expect.poll(async () => (await queued()) + (await waiting()), { interval: 20 }).toBe(0)
  }
  try {
    await harness.query(
      `update crm.people set last_name = 'Hopper' || id, first_name = 'Grace', company = 'Navy'`,
    )
    await expect
      .poll(() => harness.query(`select 1 from crm.people where title is null`), { interval: 20 })
      .toEqual([])
    await settled()
    expect(harness.calls()).toBe(30)
    const changes = await harness.query(`select 1 from fillrate.changes`)
    await harness.query(`insert into fillrate.changed_rows (source, keys, is_import)
      select s, array_agg(p.id::text), false from crm.people p, unnest(array['people', 'byUrl']) s group by s`)
    await settled()
    expect(harness.calls()).toBe(30)
    expect(await harness.query(`select 1 from fillrate.changes`)).toHaveLength(changes.length)
    await harness.query(
      `update crm.people set linkedin = 'https://linkedin.com/in/typed', title = null where id = 3`,
    )
    await expect
      .poll(() => harness.query(`select 1 from crm.people where title is null`), { interval: 20 })
      .toEqual([])
  } finally {
    await stop()
  }
})

test('an expression in which the other table cannot be replaced reads it as it stands', async () => {
  const company = '(select crm.accounts.name from crm.accounts where crm.accounts.id = t.account_id)'
  await start(
    {
      people: { ...people, inputs: { email: 't.email', name: INPUTS.name, company } },
      accounts: {
        kind: 'company',
        table: 'crm.accounts',
        inputs: { domain: 't.website' },
        outputs: { name: 'name' },
      },
    },
    `create table crm.accounts (id int primary key, website text, name text);
     insert into crm.accounts select n, 'https://www.company' || n || '.example' from generate_series(1, 30) n;
     update crm.people set account_id = id;`,
  )
  expect(await run(['people'])).toMatchObject({ picked: 30, requested: 10 })
  expect(await run(['people'])).toMatchObject(NOTHING)
})

test('a value that a person types while its row is looked up is kept, and looked up', async () => {
  await start({ people })
  const app = await harness.open()
  await app.plan(runRequest())
  // Picked with its name; typed before it is written.
  await harness.query(`
    create function crm.type() returns trigger language plpgsql as $$
    begin
      update crm.people set linkedin = 'https://linkedin.com/in/typed-meanwhile' where id = 2;
      return null;
    end $$;
    create trigger type after insert on fillrate.answered_lookups for each statement
      when (pg_trigger_depth() = 0) execute function crm.type();`)
  await run()
  expect(await harness.query('select linkedin from crm.people where id = 2')).toEqual([
    { linkedin: 'https://linkedin.com/in/typed-meanwhile' },
  ])
  expect(requestedInputs().filter((input) => input.includes('typed-meanwhile'))).toHaveLength(1)
  await harness.query('drop trigger type on fillrate.answered_lookups')
  expect(await run()).toMatchObject(NOTHING)
})
