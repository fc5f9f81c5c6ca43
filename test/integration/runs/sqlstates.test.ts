import { expect, test } from 'vitest'
import { useHarness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

/*
 * Every class of SQLSTATE of Postgres's Appendix A, raised by a trigger for one row: it is that row's fault. It is rejected
 * with the reason, all others are written, and the run ends.
 */

/** Raised with the text `not this one`. */
const CODES = `
  01000 02000 03000 08000 08001 08003 08006 08P01 09000 0A000 0B000 0F000 0L000 0P000 0Z000 10608 20000 21000 22000 22P05
  23000 24000 25000 25001 25006 25P02 25P03 25P04 26000 27000 28000 28P01 2B000 2D000 2F000 34000 38000 39000 3B000 3D000
  3F000 40001 42000 42501 42703 42P01 44000 53100 53400 54000 55000 55006 55P02 57000 57014 57P01 57P03 57P04 58000 58030
  72000 F0000 FRTRY HV000 P0001 P0004 XX000 XX001 ZZZZZ MY001`
  .trim()
  .split(/\s+/)

/** A reason that says who raised it. */
const WORDED: Readonly<Record<string, string>> = {
  '40001': 'raised by a trigger or function: not this one',
  '53100': 'raised by a trigger or function: not this one',
  '57014': 'raised by a trigger or function: not this one',
  P0001: 'raised by a trigger or function: not this one',
}

/** What a trigger does with a row, by its fault, and what is said of it. */
const FAULTS: Readonly<Record<string, RegExp>> = {
  'currval before nextval': /currval of sequence .* is not yet defined .*\(55000\)/,
  'too deep': /stack depth limit exceeded \(54001\)/,
  'no such table': /relation "nothing" does not exist \(42P01\)/,
  'temporary files': /temporary file size exceeds .*\(53400\)/,
  domain: /CHECK constraint does not allow the value \(word_check, domain word\)/,
  'checked at commit': /there is no such row in places \(id\), people_place_fkey/,
  'checked at commit elsewhere': /there is no such row in audit_place_fkey/,
}

const source = (table: string) => personSource(table, { title: 'title', phone: 'phone' })
const harness = useHarness({
  config: {
    sources: { people: source('people'), closed: source('closed'), retrying: source('retrying') },
    budget: 'unlimited',
  },
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: async ({ pool, url }) => {
    const name = new URL(url).pathname.slice(1)
    await pool.query(`
        create domain word as text check (value <> '');
        create sequence numbers;
        create table places (id int primary key);
        create table audit (place int references places deferrable initially deferred);
        create table faults (id int primary key, fault text);
        create table people (id int primary key, email text, title word, phone text,
          place int references places deferrable initially deferred);
        create table closed (id int primary key, email text, title text, phone text);
        create table retrying (like closed including all);
        create function recurse(n int) returns int language plpgsql as $$ begin return recurse(n + 1); end $$;
        create function fail() returns trigger language plpgsql as $$
        declare
          f text := (select fault from faults where id = old.id);
        begin
          case
            when f ~ '^.{5}$' then raise exception 'not this one' using errcode = f;
            when f = 'currval before nextval' then perform currval('numbers');
            when f = 'too deep' then perform recurse(1);
            when f = 'no such table' then execute 'select from nothing';
            when f = 'temporary files' then
              perform from (select n from generate_series(1, 1000000) n order by -n offset 999999) x;
            when f = 'domain' then new.title := '';
            when f = 'checked at commit' then new.place := 1;
            when f = 'checked at commit elsewhere' then insert into audit values (1);
            else
          end case;
          return new;
        end $$;
        create trigger fail before update on people for each row execute function fail();
        create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'closed' using errcode = tg_argv[0]; end $$;
        create trigger refuse before update on closed for each row execute function refuse('57P01');
        create trigger refuse before update on retrying for each row execute function refuse('40001');
        insert into closed select n, 'closed' || n || '@example.com' from generate_series(1, 20) n;
        insert into retrying select n, 'retrying' || n || '@example.com' from generate_series(1, 20) n;
        alter database "${name}" set temp_file_limit = '1MB';
        alter database "${name}" set work_mem = '64kB';`)
    await pool.query(
      `insert into faults select n, fault from unnest($1::text[]) with ordinality as u (fault, n)`,
      [
        // Between them, rows that are fine.
        [...CODES, ...Object.keys(FAULTS)].flatMap((fault) => [fault, 'fine']),
      ],
    )
    await pool.query(`insert into people select id, 'p' || id || '@example.com' from faults`)
  },
})

test('an error of one row is that row’s, whatever its SQLSTATE, and the run ends', async () => {
  const report = await harness.run()
  expect(report).toMatchObject({
    status: 'completed',
    rows_by_source: {
      people: {
        enriched: CODES.length + Object.keys(FAULTS).length,
        write_rejected: CODES.length + Object.keys(FAULTS).length,
      },
      // Where a trigger rejects every row, the others sources are written, and it ends as well.
      closed: { enriched: 0, write_rejected: 20 },
      retrying: { enriched: 0, write_rejected: 20 },
    },
  })
  const rows = await harness.query<{ fault: string; reason: string }>(
    `select fault, coalesce(r.reason, s.reason) as reason
       from faults f join fillrate.rows r on r.source = 'people' and r.key = f.id::text
       left join lateral (select * from fillrate.skipped_cells s where s.source = 'people' and s.key = r.key limit 1) s on true
      where r.state = 'write_rejected'`,
  )
  const reasons = new Map(rows.map(({ fault, reason }) => [fault, reason]))
  expect(Object.fromEntries(CODES.map((code) => [code, reasons.get(code)]))).toEqual(
    Object.fromEntries(CODES.map((code) => [code, WORDED[code] ?? `not this one (${code})`])),
  )
  for (const [fault, reason] of Object.entries(FAULTS)) expect(reasons.get(fault)).toMatch(reason)
})
