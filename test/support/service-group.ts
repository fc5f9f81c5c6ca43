import { insertService } from '../../src/store/services.ts'
import { startHarness, type Harness } from './harness.ts'

const config = {
  sources: {
    people: {
      kind: 'person',
      table: 'people',
      inputs: { email: 't.email' },
      outputs: { title: 'title', phone: 'phone' },
    },
  },
  budget: 'unlimited',
}

/** Rows by what the two services know of them. */
export const GROUP_ROWS = { both: '1', secondOnly: '2', none: '3' } as const

/**
 * Two services that were asked in turn, in runs 1 and 2 of one group. `acme`, the harness's sandbox, knows every other person, and `pdl`
 * those that it misses, but for row 3; of row 1 it adds the phone that `acme` left blank.
 */
export async function startServiceGroup(): Promise<Harness> {
  const harness = await startHarness({
    config,
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, phone text);
        insert into people select n, 'p' || n || '@example.com' from generate_series(1, 20) n;`)
    },
  })
  await harness.run()
  const { db } = harness.database
  const pdl = await insertService(db, 'pdl.example', [])
  await harness.query(`
    update fillrate.services set name = case id when ${pdl} then 'pdl' else 'acme' end;
    insert into fillrate.runs (group_id, service_id, trigger, sources, state, owner, lease_token, leased_until, finished_at)
    values (1, ${pdl}, 'manual', '{people}', 'completed', 'test', gen_random_uuid(), now(), now());
    update fillrate.runs set group_id = 1 where id = 1`)
  // What `acme` missed: as if its sandbox had not known them.
  await harness.query(`
    with missed as (
      select r.key, r.lookup_id from fillrate.rows r where r.key::int % 2 = 0 or r.key = '${GROUP_ROWS.none}'
    ), lookup as (
      update fillrate.lookups l set state = 'not_found', record = null, confidence = null from missed where l.id = missed.lookup_id
    ), cells as (
      update people p set title = null, phone = null from missed where p.id = missed.key::int
    ), change as (
      delete from fillrate.changes c using missed where c.key = missed.key
    )
    update fillrate.rows r set last_written = null from missed where r.key = missed.key;
    update people set phone = null where id = ${GROUP_ROWS.both};
    update fillrate.changes set before = before - 'phone', after = after - 'phone' where key = '${GROUP_ROWS.both}';
    update fillrate.rows set last_written = last_written - 'phone' where key = '${GROUP_ROWS.both}';
    update fillrate.lookups set record = (record::jsonb - 'phone')::json where key = 'p${GROUP_ROWS.both}@example.com'`)
  await harness.query(`
    with asked as (
      select r.key, r.lookup_id, r.input_hash, l.key as email, l.kind, l.input, l.state = 'found' as is_known
        from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
       where l.state = 'not_found' or r.key = '${GROUP_ROWS.both}'
    ), lookup as (
      insert into fillrate.lookups (service_id, run_id, source, kind, key, input, state, record, confidence, requested_at, resolved_at)
      select ${pdl}, 2, 'people', kind, email, input, state, case state when 'found' then
               json_build_object('title', 'Boss of ' || key, 'phone', '+4712345' || key, 'email', email) end,
             case state when 'found' then 0.8 end, now(), now()
        from (select *, case key when '${GROUP_ROWS.none}' then 'not_found' else 'found' end as state from asked) a
      returning id, key, state
    ), filled as (
      select asked.*, lookup.id, lookup.state,
             case when is_known then '{}' else jsonb_build_object('title', 'Boss of ' || asked.key) end
             || jsonb_build_object('phone', '+4712345' || asked.key) as after
        from asked join lookup on lookup.key = asked.email
    ), cells as (
      update people p set title = coalesce(after ->> 'title', title), phone = after ->> 'phone'
        from filled where p.id = filled.key::int and state = 'found'
    ), change as (
      insert into fillrate.changes (run_id, lookup_id, input_hash, source, key, before, after)
      select 2, id, input_hash, 'people', key, (select jsonb_object_agg(k, null) from jsonb_object_keys(after) k), after
        from filled where state = 'found'
    )
    update fillrate.rows r
       set missed_lookup_ids = array[r.lookup_id], lookup_id = filled.id, run_id = 2, service_id = ${pdl},
           only_blanks = is_known, state = case filled.state when 'found' then 'enriched' else 'not_found' end,
           last_written = case filled.state when 'found' then coalesce(r.last_written, '{}') || after else r.last_written end
      from filled where r.key = filled.key`)
  return harness
}
