import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Finding } from '../../../src/cli/check/finding.ts'
import type { Ended } from '../../support/cli.ts'
import { startLoopback } from '../../support/loopback.ts'
import { runProgram } from '../../support/program.ts'
import { onServer } from '../../support/server.ts'
import { openCommandLine } from './command-line.ts'
import { personSource } from '../../support/crm.ts'

const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table people (
      id int primary key, number int generated always as identity, email text, name text, title text, stage text,
      updated_at timestamptz);
    insert into people (id, email, name) select n, 'p' || n || '@example.com', 'P' || n from generate_series(1, 20) n;
    create table addresses (person int, email text);
    insert into addresses values (7, 'a@example.com'), (7, 'b@example.com');
    analyze`),
})

const source = (changes: object = {}): object => personSource('people', { title: 'title' }, changes)

interface Options {
  readonly sources?: Record<string, object>
  readonly env?: NodeJS.ProcessEnv
}

async function check(
  { sources = { people: source() }, env = {} }: Options,
  ...words: string[]
): Promise<Ended> {
  const command = words[0] === 'plan' ? [] : ['check']
  await cli.configure({ sources, budget: 5 })
  const environment = { ...cli.environment, ...env }
  return runProgram({ cwd: cli.folder, env: environment }, ...command, ...words)
}

async function checks(options: Options): Promise<Map<string, Finding>> {
  const { stdout } = await check(options, '--json')
  const list = (JSON.parse(stdout) as { checks: Finding[] }).checks
  return new Map(list.map((one) => [one.name, one]))
}

/**
 * What is wrong with a source: its change, the place, and a word of what was found and of what to do. One of each kind; the
 * others are in open-source.test.ts and describe-source.test.ts.
 */
const MISTAKES: readonly [name: string, changes: object, place: string, found: string, todo: string][] = [
  ['column', { outputs: { titel: 'title' } }, 'outputs.titel', 'not a column of', "Did you mean 'title'?"],
  [
    'syntax',
    { inputs: { email: "lower(t.email) t.name || 'x'" } },
    'inputs.email',
    "lower(t.email) t.name || 'x'\n               ^\nsyntax error at or near",
    'Correct the expression',
  ],
  [
    'double',
    { joins: 'left join addresses a on a.person = t.id', inputs: { email: 'coalesce(a.email, t.email)' } },
    'joins',
    'more than one row, for key 7',
    'left join lateral',
  ],
]

describe('every mistake in a source is reported with a fix', () => {
  let found: Map<string, Finding>
  beforeAll(async () => {
    const all = MISTAKES.map(([name, changes]) => [name, source(changes)])
    found = await checks({ sources: Object.fromEntries(all) })
  })

  test.each(MISTAKES)('%s', (name, _, place, what, todo) => {
    const { verdict, problems = [] } = found.get(`source ${name}`) ?? {}
    expect(verdict).toBe('error')
    expect(problems[0]?.place).toBe(place)
    expect(problems[0]?.found).toContain(what)
    expect(problems[0]?.todo).toContain(todo)
  })

  test('in a terminal with a caret at its place, exit code 2, and all sources checked', async () => {
    const [, changes = {}] = MISTAKES.find(([name]) => name === 'syntax') ?? []
    const ended = await check({ sources: { people: source(changes) } })
    expect(ended).toMatchObject({ code: 2, stderr: '' })
    expect(ended.stdout).toContain(
      [
        '✗ source people     1 problem',
        '',
        '  inputs.email',
        "    found     lower(t.email) t.name || 'x'",
        '                             ^',
        '              syntax error at or near "t"',
      ].join('\n'),
    )
    expect(ended.stdout).toMatch(/1 problem to fix before you can run\./)
  })
})

describe('one answer', () => {
  test('holds the problems of configuration and environment; of a broken configuration neither sources nor the service are checked', async () => {
    const sources = {
      people: source({
        outputs: { titel: 'titel', phone: 'title', stage: { field: 'seniority', polic: 'x' } },
      }),
      persons: source({ table: 'persons', wher: 'true' }),
    }
    const found = await checks({ sources, env: { FILLRATE_PORT: 'eighty' } })
    const places = [...found.values()].flatMap(({ name, problems }) =>
      problems.map(({ place }) => `${name}: ${place}`),
    )
    expect(places).toEqual([
      'configuration: sources.people.outputs.titel',
      'configuration: sources.people.outputs.stage.polic',
      'configuration: sources.persons.wher',
      'environment: FILLRATE_PORT',
    ])
    expect(found.get('configuration')?.problems[0]?.todo).toBe("Did you mean 'title'?")
    expect([...found.keys()]).toEqual(['configuration', 'environment'])
    const mended = await checks({ sources })
    expect([...mended.keys()]).toEqual(['configuration', 'database', 'schema'])
  })

  test('holds the problems of the configuration when the database is away', async () => {
    const sources = { people: source({ wher: 'true' }) }
    for (const url of ['postgres://clerk@127.0.0.1:1/crm', 'localhost:5432/crm', '']) {
      const ended = await check({ sources, env: { DATABASE_URL: url } })
      expect(ended).toMatchObject({ code: 2, stderr: '' })
      expect(ended.stdout).toContain("Did you mean 'where'?")
    }
  })

  test('says what a source lacks beside what can never be written', async () => {
    const sources = { people: source({ outputs: { titel: 'title', number: 'title' } }) }
    const found = (await checks({ sources })).get('source people')
    expect(found?.problems.map(({ place }) => place)).toEqual(['outputs.titel', 'outputs.number'])
  })
})

describe('privileges', () => {
  const name = (): string => database.url.slice(-12)

  /** Runs `check` as a new role with the given privileges. */
  async function asRole<Result>(
    grants: (role: string) => string,
    act: (role: string, env: NodeJS.ProcessEnv) => Promise<Result>,
  ): Promise<Result> {
    const role = `clerk_${name()}`
    await database.query(`create role ${role} login password 'x'`)
    await database.query(grants(role))
    const url = new URL(database.url)
    url.username = role
    url.password = 'x'
    try {
      return await act(role, { DATABASE_URL: url.href })
    } finally {
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  }

  const statements = async (options: Options): Promise<string[]> =>
    ((await checks(options)).get('privileges')?.todo ?? '').split('\n')

  test('missing ones are listed as statements, one for each table, with the role', () =>
    asRole(
      (role) => `
        grant select (id, email, name) on people to ${role};
        grant usage on schema fillrate to ${role};
        grant select on fillrate.migrations to ${role};
        grant select on fillrate.runs to ${role}`,
      async (role, env) => {
        const sources = {
          people: source({ where: 't.stage is null' }),
          again: source({ outputs: { title: 'title', 'name.full': 'name.full' } }),
          touched: source({ touch: { updated_at: 'now()' } }),
        }
        // `name.full` is no column: another problem, reported beside.
        const found = await checks({ sources, env })
        expect(found.get('schema')).toMatchObject({
          verdict: 'error',
          text: 'missing privileges, listed below',
        })
        expect(found.get('source people')).toMatchObject({
          verdict: 'error',
          text: 'missing privileges, listed below',
        })
        expect(found.get('source again')?.text).toBe('1 problem, missing privileges, listed below')
        expect(found.get('privileges')?.todo?.split('\n')).toEqual([
          `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fillrate TO ${role};`,
          `GRANT SELECT (title, stage, updated_at), UPDATE (title, updated_at) ON public.people TO ${role};`,
        ])
      },
    ))

  test('the statements are enough: with them, check passes', async () => {
    await database.query(`
      create schema "Side"; create table "Side"."order" (id int primary key, email text, "group" text);
      create table "Side".companies (id int primary key, name text);
      create function "Side".slug(text) returns text immutable language sql as 'select lower($1)';
      revoke execute on function "Side".slug(text) from public;
      create sequence "Side".numbers;
      insert into "Side"."order" values (1, 'ada@example.com')`)
    const sources = {
      orders: source({
        table: '"Side"."order"',
        joins: 'left join "Side".companies c on c.id = t.id',
        inputs: { email: '"Side".slug(t.email)' },
        outputs: { group: { field: 'title', sql: `$value || nextval('"Side".numbers')` } },
      }),
    }
    await asRole(
      () => 'select',
      async (role, env) => {
        expect((await check({ sources, env })).code).toBe(2)
        const wanted = await statements({ sources, env })
        expect(wanted).toEqual([
          `GRANT USAGE ON SCHEMA fillrate TO ${role};`,
          `GRANT USAGE ON SCHEMA "Side" TO ${role};`,
          `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fillrate TO ${role};`,
          `GRANT SELECT, UPDATE ("group") ON "Side"."order" TO ${role};`,
          `GRANT SELECT ON "Side".companies TO ${role};`,
          `GRANT USAGE ON SEQUENCE "Side".numbers TO ${role};`,
          `GRANT EXECUTE ON FUNCTION "Side".slug(text) TO ${role};`,
        ])
        for (const statement of wanted) await database.query(statement)
        expect(await check({ sources, env })).toMatchObject({ code: 0 })
      },
    )
    await database.query('drop schema "Side" cascade')
  })

  test('a run names them in the same way', () =>
    asRole(
      (role) => `grant select (id, email) on people to ${role}; grant usage on schema fillrate to ${role};
                 grant select, insert, update, delete on all tables in schema fillrate to ${role}`,
      async (role, env) => {
        const { stderr, code } = await check({ env }, 'plan')
        expect(code).toBe(2)
        expect(stderr).toContain(`GRANT SELECT (title), UPDATE (title) ON public.people TO ${role};`)
      },
    ))
})

describe('the webhook address', () => {
  const bulk = async (env: NodeJS.ProcessEnv): Promise<Finding | undefined> =>
    (await checks({ env })).get('bulk')

  test('is tested: the receiver answers there, nothing does yet, or something else does', async () => {
    const receiver = await startLoopback((_, response) => {
      response.statusCode = 401
      response.end('{"error":"invalid signature"}')
    })
    expect(await bulk({ FILLRATE_PUBLIC_URL: receiver.url })).toMatchObject({
      verdict: 'ok',
      text: expect.stringContaining('which answers'),
    })
    await receiver.close()
    expect(await bulk({ FILLRATE_PUBLIC_URL: receiver.url })).toMatchObject({
      verdict: 'warning',
      text: expect.stringContaining('connection refused (ECONNREFUSED)'),
      todo: expect.stringContaining('fillrate serve'),
    })
    expect(await bulk({ FILLRATE_PUBLIC_URL: sandbox.url })).toMatchObject({
      verdict: 'error',
      problems: [{ found: expect.stringContaining('something else answers, with 404') }],
    })
  })
})

describe('before the first migrate', () => {
  const empty = (): string => `empty_${database.url.slice(-12)}`
  const role = (): string => `clerk_${database.url.slice(-12)}`
  const urlOf = (user: string | null): string => {
    const url = new URL(database.url)
    url.pathname = `/${empty()}`
    if (user !== null) Object.assign(url, { username: user, password: 'x' })
    return url.href
  }
  beforeAll(async () => {
    await database.query(`create role ${role()} login password 'x'`)
    await database.query(`create database ${empty()} template template0`)
    await onServer(urlOf(null), (client) =>
      client.query(`create table people (id int primary key, email text, title text);
                    insert into people values (1, 'ada@example.com')`),
    )
  })
  afterAll(async () => {
    await database.query(`drop database ${empty()} with (force)`)
    await database.query(`drop role ${role()}`)
  })

  test('check passes, and says what comes first', async () => {
    const sources = { people: source({ follow: true }) }
    const env = { DATABASE_URL: urlOf(null) }
    const { code, stdout } = await check({ sources, env })
    expect(stdout).toMatch(/! schema +not created yet\n +Run `fillrate migrate` first\./)
    expect(stdout).toContain('Ready to migrate. Next: fillrate migrate creates the schema "fillrate".')
    expect(code).toBe(0)
    expect((await checks({ sources, env })).get('follow people')).toMatchObject({
      verdict: 'warning',
      todo: 'After `fillrate migrate`, run `fillrate follow install people`.',
    })
  })

  test('a role that may not create the schema gets the statements for either way', async () => {
    const found = await checks({ env: { DATABASE_URL: urlOf(role()) } })
    expect(found.get('schema')).toMatchObject({
      verdict: 'error',
      text: `not created yet, and the role ${role()} may not create it`,
      todo: expect.stringContaining(`CREATE SCHEMA fillrate AUTHORIZATION ${role()};`),
    })
    expect(found.get('privileges')?.todo?.split('\n')).toEqual([
      `GRANT CREATE ON DATABASE ${empty()} TO ${role()};`,
      `GRANT SELECT, UPDATE (title) ON public.people TO ${role()};`,
    ])
  })

  test('a schema of a version before the first release is reported with what to do', async () => {
    const url = urlOf(null)
    await onServer(url, (client) =>
      client.query(`create schema fillrate; create table fillrate.migrations (name text, timestamp text);
                    insert into fillrate.migrations values ('0001_schema', '');
                    comment on table fillrate.migrations is 'another'`),
    )
    try {
      expect((await checks({ env: { DATABASE_URL: url } })).get('schema')).toMatchObject({
        verdict: 'error',
        problems: [
          {
            found: expect.stringContaining('created by a version before the first release'),
            todo: expect.stringContaining('`drop schema fillrate cascade`'),
          },
        ],
      })
    } finally {
      await onServer(url, (client) => client.query('drop schema fillrate cascade'))
    }
  })
})

test('results of another service in the database are reported, with the statement for a service that has moved', async () => {
  await database.query(`insert into fillrate.services (id, host) values (0, 'api.old.example')`)
  const { host } = new URL(sandbox.url)
  const found = (await checks({})).get('scope')
  expect(found).toMatchObject({ verdict: 'warning' })
  expect(found?.text).toBe(`this database holds results of api.old.example, and none of ${host}`)
  const [statement = ''] = /update fillrate[^;]*/.exec(found?.todo ?? '') ?? []
  await database.query(statement)
  expect((await checks({})).has('scope')).toBe(false)
  await database.query(`delete from fillrate.services`)
})

describe('with the name of a source', () => {
  const sources = { people: source(), persons: source({ table: 'persons' }), others: source({ table: 'x' }) }
  const names = async (...words: string[]): Promise<string[]> => {
    const { stdout } = await check({ sources }, ...words, '--json')
    return (JSON.parse(stdout) as { checks: Finding[] }).checks.map(({ name }) => name)
  }

  test('the database and that source are checked, and nothing else', async () => {
    expect(await names('people')).toEqual(['configuration', 'database', 'schema', 'source people'])
    expect(await names('people', 'o*')).toEqual([
      'configuration',
      'database',
      'schema',
      'source people',
      'source others',
    ])
    expect((await check({ sources }, 'people')).code).toBe(0)
    expect((await check({ sources }, 'persons')).code).toBe(2)
  })

  test('that the configuration does not have, the nearest is suggested', async () => {
    const { code, stderr } = await check({ sources }, 'peeple')
    expect(code).toBe(2)
    expect(stderr).toMatch(/no such source[\s\S]*Did you mean 'people'\?/)
  })
})
