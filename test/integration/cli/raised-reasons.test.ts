import { expect, test } from 'vitest'
import { openCommandLine } from './command-line.ts'
import { personSource } from '../../support/crm.ts'

const { database, sandbox, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create table people (id int primary key, email text, title text);
      insert into people select n, 'person' || n || '@example.com' from generate_series(1, 89) n;
      create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'row % of % is closed for "%"', new.id, new.email, new.title; end $$;
      create trigger refuse before update on people for each row execute function refuse()`),
  service: { notFoundShare: 0, missingShare: 0 },
  config: {
    sources: { people: personSource('public.people', { title: 'title' }) },
    budget: 'unlimited',
  },
})

test('what a trigger raises with the values of each row is one reason, and its rows are retried together', async () => {
  await here(['run', '--route', 'sync'])
  const failures = async (): Promise<unknown> => JSON.parse((await here(['failures', '--json'])).stdout)
  const reason = 'raised by a trigger or function: row … of … is closed for …'
  expect(await failures()).toMatchObject({
    total: 89,
    reasons: [{ source: 'people', state: 'write_rejected', reason, rows: 89 }],
  })
  await database.query('drop trigger refuse on people')
  const { accepted } = sandbox.stats().calls
  expect((await here(['retry', 'people', '--reason', reason])).stdout).toContain('89 rows')
  await here(['run', '--route', 'sync'])
  const rows = await database.query('select from people where title is null')
  expect(rows).toEqual([])
  expect(sandbox.stats().calls.accepted).toBe(accepted)
  expect(await failures()).toMatchObject({ total: 0, reasons: [] })
})
