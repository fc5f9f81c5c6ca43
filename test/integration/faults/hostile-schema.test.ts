import { afterAll, expect, test } from 'vitest'
import { hasPgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// Postgres prefers an operator or function for exactly the types of its arguments to its own for any type, whatever its
// schema: another role that may create in a schema of the search path could run code with the rights of Fillrate's role.

const config = {
  sources: {
    people: {
      kind: 'person',
      table: 'crm.people',
      key: ['tenant', 'code'],
      inputs: { email: 't.email' },
      outputs: {
        title: { field: 'title', policy: 'tracked' },
        stage: { field: 'seniority', policy: 'tracked', map: { '*': 'warm' } },
        nick: { field: 'name.full', policy: 'always' },
        handle: { field: 'company.name', policy: 'tracked' },
        tags: { field: 'title', sql: 'array[$value]', policy: 'always' },
        place: { field: 'title', sql: `row('Oslo', 7)::crm.place`, policy: 'always' },
        short: { field: 'seniority', policy: 'always' },
        score: { field: 'title', sql: '$confidence * 100', policy: 'always' },
        'doc.phone': { field: 'phone', policy: 'always' },
      },
      freshness: { column: 'checked_at' },
      follow: true,
    },
    companies: {
      kind: 'company',
      table: 'crm.companies',
      inputs: { domain: 't.site' },
      outputs: { industry: 'industry', staff: { field: 'employee_count', policy: 'always' } },
    },
  },
  budget: 'unlimited',
} as const

/** Types of the tables' columns, and of what Fillrate's statements compute. */
const TYPES = [
  'crm.stage',
  'crm.nick',
  'crm.place',
  'ext.citext',
  'varchar',
  'bpchar',
  'text',
  'text[]',
  'varchar[]',
  'bigint[]',
  'int[]',
  'uuid[]',
  'crm.stage[]',
  'jsonb',
  'json',
  'smallint',
  'int',
  'bigint',
  'numeric',
  'double precision',
  'boolean',
  'timestamptz',
  'timestamp',
  'date',
  'interval',
  'uuid',
]
const OPERATORS = '= <> < <= > >= || ~ !~ ~~ -> ->> #> #>> @> <@ && + - * / #'.split(' ')
const FUNCTIONS = [
  'unnest',
  'to_jsonb',
  'to_json',
  'array_to_json',
  'row_to_json',
  'cardinality',
  'lower',
  'btrim',
  'length',
  'quote_literal',
  'isfinite',
  'hashtextextended',
  'format',
  'concat',
]

const ROLE = `fillrate_hostile_${process.pid}`
const seen = async (): Promise<unknown[]> =>
  (await harness.query('select distinct what from public.seen order by 1')).map(
    (row) => (row as { what: string }).what,
  )

const harness = useHarness({
  config,
  sandbox: { missingShare: 0 },
  prepare: async ({ pool }) => {
    await pool.query(`
        create schema ext; create extension citext schema ext; create schema crm;
        create type crm.stage as enum ('cold', 'warm');
        create domain crm.nick as text;
        create type crm.place as (city text, number int);
        create table crm.people (
          tenant varchar(10), code ext.citext, email ext.citext, title varchar(200), stage crm.stage, nick crm.nick,
          handle ext.citext, tags text[], place crm.place, short char(40), score numeric(8, 2), doc jsonb,
          checked_at timestamp, primary key (tenant, code));
        create table crm.companies (
          id smallint primary key, site varchar(80), industry crm.nick, staff smallint, changed_at timestamptz default now());
        insert into crm.people (tenant, code, email, stage, title)
        select 't', 'C' || n, 'Person' || n || '@example.com', case when n % 3 = 0 then 'cold' end::crm.stage,
               case when n % 5 = 0 then 'Typed' end
          from generate_series(1, 30) n;
        insert into crm.companies (id, site) select n, 'company' || n || '.example' from generate_series(1, 10) n;
        -- So that rows are read again after the write, and bisected.
        create function crm.look() returns trigger language plpgsql as 'begin return null; end';
        create trigger look after update on crm.people for each row execute function crm.look();
        alter table crm.people add check (code operator(ext.<>) 'c7' or doc ->> 'phone' is null);
        -- A database of Postgres 14 or older, in which every role may create in public.
        grant create on schema public to public;
        create table public.seen (what text);
        grant insert on public.seen to public;
        grant usage on schema crm, ext to public;
        create function public.plant(types text[], operators text[], functions text[]) returns void language plpgsql as $plant$
        declare l text; r text; o text; result regtype; n int := 0;
        begin
          foreach l in array types loop
            foreach o in array functions loop
              begin
                execute format('select pg_typeof(pg_catalog.%I(null::%s)) limit 1', o, l) into result;
                if exists (select from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname = o
                             and oidvectortypes(proargtypes) = format_type(l::regtype, null)) then continue; end if;
                execute format('create function public.%I(%s) returns %s %s language plpgsql as $$ begin insert into public.seen values (%L); return %s pg_catalog.%I($1); end $$',
                  o, l, case o when 'unnest' then 'setof' else '' end, result, o || '(' || l || ')', case o when 'unnest' then 'query select' else '' end, o);
              exception when others then null; end;
            end loop;
            foreach r in array types loop
              foreach o in array operators loop
                begin
                  if exists (select from pg_operator where oprnamespace = 'pg_catalog'::regnamespace and oprname = o
                               and oprleft = l::regtype and oprright = r::regtype) then continue; end if;
                  execute format('select pg_typeof(null::%s operator(pg_catalog.%s) null::%s)', l, o, r) into result;
                  n := n + 1;
                  execute format('create function public.spy%s(%s, %s) returns %s language plpgsql as $$ begin insert into public.seen values (%L); return $1 operator(pg_catalog.%s) $2; end $$',
                    n, l, r, result, l || ' ' || o || ' ' || r, o);
                  execute format('create operator public.%s (function = public.spy%s, leftarg = %s, rightarg = %s)', o, n, l, r);
                exception when others then null; end;
              end loop;
            end loop;
          end loop;
        end $plant$;
        create role mallory_${process.pid};
        create role ${ROLE} superuser login password 'x';
        grant execute on function public.plant to public;
      `)
    const mallory = await pool.connect()
    await mallory.query(`set search_path = pg_catalog; set role mallory_${process.pid}`)
    await mallory.query('select public.plant($1, $2, $3)', [TYPES, OPERATORS, FUNCTIONS])
    mallory.release(true)
  },
})
afterAll(async () => {
  await harness.query(
    `drop owned by mallory_${process.pid} cascade; drop role mallory_${process.pid}, ${ROLE}`,
  )
})

const findPlanted = `select count(*)::int as planted from pg_operator where oprowner = 'mallory_${process.pid}'::regrole`

test.each([
  ['', false],
  [', behind PgBouncer', true],
])('no operator or function of another role is called with the rights of Fillrate%s', async (_, isPooled) => {
  if (isPooled && !hasPgBouncer()) return
  expect(await harness.query(findPlanted)).toMatchObject([
    { planted: expect.toSatisfy((count: number) => count > 300) },
  ])
  // They are called where nothing prevents it.
  await harness.query(
    `select 'cold'::crm.stage = 'warm'::crm.stage, t.tenant || t.code from crm.people t where t.code::text = 'C1'`,
  )
  expect(await seen()).toEqual(['crm.stage = crm.stage', 'varchar || ext.citext'])
  await harness.query('truncate public.seen')

  const url = new URL(harness.database.url)
  url.username = ROLE
  url.password = 'x'
  const pooler = isPooled ? await startPgBouncer(url) : null
  if (pooler !== null) url.port = String(pooler.port)
  const app = await harness.open({ environment: { databaseUrl: url.href } })
  const { signal } = new AbortController()
  const found: Record<string, unknown[]> = {}
  const step = async <Result>(name: string, act: () => Promise<Result>): Promise<Result> => {
    const result = await act()
    found[name] = await seen()
    await harness.query('truncate public.seen')
    return result
  }
  try {
    await step('install', () => app.follow('install', 'people'))
    await step('trigger', () =>
      harness.query(`update crm.people set email = 'x' || email::text where code operator(ext.=) 'c1'`),
    )
    await step('plan', () => app.plan(runRequest()))
    const { run, rows: states, cells } = await step('run', () => app.run(runRequest()))
    expect(states).toMatchObject({ picked: 40, failed: 0, waiting: 0, write_rejected: 0 })
    expect(cells.written).toBeGreaterThan(100)
    await step('second run', () => app.run(runRequest()))
    await step('explain', () => app.explain('people', '["t", "C1"]'))
    await step('remap', () => app.remap({ source: 'people', dryRun: false, sample: 3, signal }))
    const undone = await step('undo', () => app.undo({ run, dryRun: false, signal }))
    expect(undone).toMatchObject({ failed: [], changes: { restored: undone.changes.total } })
    await step('remove', () => app.follow('remove', 'people'))
  } finally {
    await app.close()
    await pooler?.stop()
  }
  expect(Object.entries(found).filter(([, called]) => called.length > 0)).toEqual([])
  await harness.query('truncate fillrate.rows, fillrate.lookups, fillrate.changes cascade')
})

test('what is found only in such a schema is reported with what to do', async () => {
  await harness.query(`
    create table public.regions (code varchar, name text);
    create extension hstore schema public;
    alter table crm.companies add extra public.hstore`)
  const companies = config.sources.companies
  const open = (changes: object) =>
    harness.open({ config: { ...config, sources: { companies: { ...companies, ...changes } } } })
  await expect(open({ where: 'exists (select from regions)' })).rejects.toThrow(
    /relation "regions" does not exist[^]*does not search public[^]*revoke create on schema public from/,
  )
  await expect(open({ where: `t.extra is null or t.extra = ''` })).rejects.toThrow(
    /extra is of type hstore, whose operators are in public[^]*t\.extra::text, or operator[^]*revoke create on schema public from/,
  )
  await open({ where: 'exists (select from public.regions) or true' })
  await open({ where: `t.extra is null or t."extra"::text <> '' or t.extra operator(public.=) 'a=>1'` })
  // Those whose triggers run with the rights of Fillrate's role anyway may create there.
  await harness.query(`
    drop owned by mallory_${process.pid} cascade;
    revoke create on schema public from public;
    grant create on schema public to mallory_${process.pid}`)
  await expect(open({ where: 'exists (select from regions) or true' })).rejects.toThrow('does not exist')
  await harness.query(`alter table crm.people owner to mallory_${process.pid}`)
  await open({ where: 'exists (select from regions) or true' })
})
