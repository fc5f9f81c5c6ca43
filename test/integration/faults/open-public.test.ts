import { afterAll, expect, test } from 'vitest'
import { hasPgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import { runRequest, useHarness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

// A database that was made with Postgres 14 or older: every role may create in `public`, which Fillrate's statements therefore
// do not search. What the user's triggers and constraints call finds its names there, as in all other sessions.

const people = personSource('people', {
  title: { field: 'title', policy: 'tracked' },
  seniority: { field: 'seniority', policy: 'tracked' },
} as const)
const config = { sources: { people }, budget: 'unlimited' } as const
const remapped = {
  ...config,
  sources: { people: { ...people, outputs: { ...people.outputs, name: 'name.full' } } },
}

const FIRES = ['before statement', 'before row', 'after row', 'after statement', 'deferred']
const trigger = (fires: string): string => {
  const name = `audit_${fires.replace(' ', '_')}`
  const isDeferred = fires === 'deferred'
  return `create ${isDeferred ? 'constraint ' : ''}trigger ${name} ${isDeferred ? 'after' : fires.split(' ')[0]} update on people
    ${isDeferred ? 'deferrable initially deferred' : ''} for each ${fires.split(' ')[1] ?? 'row'} execute function audit();`
}

const ROLE = `fillrate_open_${process.pid}`

const harness = useHarness({
  config,
  sandbox: { missingShare: 0 },
  prepare: async ({ pool }) => {
    await pool.query(`
        create role ${ROLE} superuser login password 'x';
        grant create on schema public to public;
        create table banned (title text primary key);
        create table audit_log (fires text, id int);
        create function squeeze(value text) returns text language sql immutable as $$ select btrim(value) $$;
        create function initial(value text) returns text language sql immutable as $$ select left(public.squeeze(value), 1) $$;
        create function is_allowed(given text) returns boolean language sql stable as $$
          select not exists (select from banned where title = squeeze(given)) $$;
        create table people (
          id int primary key, email text, title text check (is_allowed(title)), seniority text, name text,
          letter text generated always as (initial(title)) stored, changes int default 0);
        create function audit() returns trigger language plpgsql as $$
          begin
            insert into audit_log values (lower(concat_ws(' ', nullif(tg_when, 'AFTER'), tg_level)), case when tg_level = 'ROW' then new.id end);
            if tg_level = 'ROW' and tg_when = 'BEFORE' then new.changes := squeeze(' ' || old.changes + 1)::int; end if;
            return new;
          end $$;
        ${FIRES.map(trigger).join('\n')}
        insert into people (id, email) select n, 'person' || n || '@example.com' from generate_series(1, 30) n`)
  },
})
afterAll(() => harness.query(`drop role ${ROLE}`))

test.each([
  ['', false],
  [', behind PgBouncer', true],
])('triggers and constraints find their names in a public schema of Postgres 14%s', async (_, isPooled) => {
  if (isPooled && !hasPgBouncer()) return
  const url = new URL(harness.database.url)
  url.username = ROLE
  url.password = 'x'
  const pooler = isPooled ? await startPgBouncer(url) : null
  if (pooler !== null) url.port = String(pooler.port)
  const environment = { databaseUrl: url.href }
  const { signal } = new AbortController()
  const expectAudited = async (written: number): Promise<void> => {
    // Before, after and deferred, each row; the statements' own triggers also without a row.
    expect(await harness.count(`audit_log where id is not null`)).toBe(3 * written)
    expect(
      await harness.count(`(select fires, id from audit_log where id is not null group by 1, 2) as one`),
    ).toBe(2 * written)
    expect(await harness.count(`audit_log where fires = 'before statement'`)).toBeGreaterThan(0)
    expect(await harness.count(`audit_log where fires = 'statement'`)).toBeGreaterThan(0)
    await harness.query('truncate audit_log')
  }
  const app = await harness.open({ environment })
  try {
    const { run, rows: states } = await app.run(runRequest())
    expect(states).toMatchObject({ picked: 30, write_rejected: 0, failed: 0 })
    expect(states.enriched).toBeGreaterThan(15)
    expect(await harness.count(`people where seniority is not null and changes = 1`)).toBe(states.enriched)
    expect(await harness.count(`people where letter is distinct from left(title, 1)`)).toBe(0)
    await expectAudited(states.enriched)

    const other = await harness.open({ environment, config: remapped })
    const mapped = await other.remap({ source: 'people', dryRun: false, sample: 3, signal })
    expect(mapped.report?.rows).toMatchObject({ enriched: states.enriched, write_rejected: 0 })
    await other.close()
    await expectAudited(states.enriched)

    const undone = await app.undo({ run, dryRun: false, signal })
    expect(undone).toMatchObject({ failed: [], changes: { restored: undone.changes.total } })
    expect(await harness.count(`people where title is null and letter is null`)).toBe(30)
    await expectAudited(states.enriched)

    // One cell is rejected, so that the batch is bisected.
    const [banned] = (await harness.query(
      `insert into banned select record ->> 'title' from fillrate.lookups where record ->> 'title' <> '' limit 1 returning title`,
    )) as Array<{ title: string }>
    await harness.query('truncate fillrate.rows, fillrate.changes cascade')
    const again = await app.run(runRequest())
    expect(again.rows).toMatchObject({ picked: 30, write_rejected: 0, failed: 0 })
    expect(again.rows.enriched).toBe(states.enriched)
    const skipped = await harness.count(`fillrate.skipped_cells where value #>> '{}' = '${banned?.title}'`)
    expect(skipped).toBeGreaterThan(0)
    expect(await harness.count(`people where seniority is not null and title is null`)).toBe(skipped)
    expect(await harness.count(`audit_log where fires = 'row' and id is not null`)).toBeGreaterThan(
      states.enriched,
    )
  } finally {
    await app.close()
    await pooler?.stop()
    await harness.query(`truncate fillrate.rows, fillrate.lookups, fillrate.changes, audit_log, banned cascade;
      alter table people disable trigger all;
      update people set title = null, seniority = null, name = null, changes = 0;
      alter table people enable trigger all`)
  }
})

test('what a read or the statement itself needs of such a schema is reported before anything is asked', async () => {
  await harness.query(`
    create table hidden (id int);
    create function is_shown(given int) returns boolean language plpgsql stable as $$
      begin return not exists (select from hidden where id = given); end $$;
    create domain seniority as text check (is_allowed(value));
    create table staff (id int primary key, email text, title text, seniority seniority);
    insert into staff values (1, 'person1@example.com')`)
  const open = (changes: object) =>
    harness.open({ config: { ...config, sources: { people: { ...people, ...changes } } } })
  await expect(open({ table: 'staff' })).rejects.toThrow(
    /does not search public[^]*in the function is_allowed, or revoke create on schema public from public/,
  )
  const app = await open({ where: 'public.is_shown(t.id)' })
  const asked = harness.sandbox.stats()
  for (const act of [() => app.plan(runRequest()), () => app.run(runRequest())])
    await expect(act()).rejects.toThrow(
      /does not search public[^]*in the function public.is_shown, or[^]*revoke create/,
    )
  expect(harness.sandbox.stats()).toEqual(asked)
  await app.close()
})
