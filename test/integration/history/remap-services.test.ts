import { beforeAll, expect, test } from 'vitest'
import type { RemapReport } from '../../../src/actions/remap.ts'
import { whileOpen } from '../../support/answered-people.ts'
import { createCommandLine } from '../../support/cli.ts'
import { useHarness } from '../../support/harness.ts'
import { personSource, withPeople } from '../../support/crm.ts'

// Stored records of two services, written again under a mapping with more columns.

const configOf = (outputs: object) => ({
  services: { acme: {}, beta: {} },
  sources: {
    people: personSource('people', outputs, { services: ['acme', { name: 'beta', when: 'blank' }] }),
  },
  budget: 'unlimited',
})
const before = configOf({ title: 'title' })
const after = configOf({
  title: 'title',
  // Whatever the policy, a cell of the first service is its own.
  phone: { acme: 'phone', beta: { field: 'phone', policy: 'always' } },
  level: { beta: 'seniority' },
})

const services = useHarness({
  config: before,
  services: {
    acme: { notFoundShare: 0.3, missingShare: 0.3, seed: 1 },
    beta: { notFoundShare: 0.3, missingShare: 0.3, seed: 2 },
  },
  prepare: withPeople(200, 'phone text, level text'),
})
beforeAll(async () => {
  await services.run({ route: 'sync' })
})

const remap = async (dryRun: boolean): Promise<RemapReport> => {
  const app = await services.open({ config: after })
  const { signal } = new AbortController()
  return app.remap({ source: 'people', dryRun, sample: 5, signal }).finally(() => app.close())
}

const LOOKUPS = `(select key, lookup_id, missed_lookup_ids from fillrate.rows)`
/** What the records of both say, the first one first. */
const WANTED = `(
  select p.id, p.email, coalesce(a.record ->> 'title', b.record ->> 'title') as title,
         coalesce(a.record ->> 'phone', b.record ->> 'phone') as phone, b.record ->> 'seniority' as level
    from people p
    left join (fillrate.lookups a join fillrate.services s on s.id = a.service_id and s.name = 'acme') on a.key = p.email
    left join (fillrate.lookups b join fillrate.services t on t.id = b.service_id and t.name = 'beta') on b.key = p.email)`

test('each service’s records are written in their order, and no cell of an earlier one is overwritten', async () => {
  const lookups = await services.database.checksum(LOOKUPS)
  const calls = await services.count('fillrate.lookups')
  const preview = await remap(true)
  expect(await services.count('people where phone is not null')).toBe(0)
  const { examined, columns, report } = await remap(false)
  expect(preview).toMatchObject({ examined, columns, report: null })
  expect(report).toMatchObject({
    status: 'completed',
    rows: { waiting: 0 },
    cells: { written: examined.cells },
  })
  expect(columns.map(({ column, written }) => [column, written > 0])).toEqual([
    ['title', false],
    ['phone', true],
    ['level', true],
  ])
  const people = '(select id, email, title, phone, level from people)'
  expect(await services.database.checksum(people)).toBe(await services.database.checksum(WANTED))
  // The story of each row is as it was, and nothing was requested.
  expect(await services.database.checksum(LOOKUPS)).toBe(lookups)
  expect(await services.count('fillrate.lookups')).toBe(calls)
  expect(await remap(false)).toMatchObject({ examined: { changed: 0 } })
  const written = await services.query(`
    select s.name, count(*) > 0 as any from fillrate.changes c join fillrate.lookups l on l.id = c.lookup_id
      join fillrate.services s on s.id = l.service_id where c.run_id = ${report?.run} group by s.name order by s.name`)
  expect(written).toEqual([
    { name: 'acme', any: true },
    { name: 'beta', any: true },
  ])
})

test('explain reads each record by the mapping of its service, and a row that no service knows waits for its refresh', async () => {
  const app = await services.open({ config: after })
  const keyOf = (condition: string): Promise<string> =>
    services.database.scalar<string>(`select min(r.key) from fillrate.rows r where ${condition}`)
  const both = await keyOf(`cardinality(missed_lookup_ids) = 1 and exists (
    select from fillrate.lookups l where l.id = any(r.missed_lookup_ids) and l.state = 'found') and state = 'enriched'`)
  const { fields, missed_lookups: missed } = await app.explain('people', both)
  expect(missed).toMatchObject([{ service: 'acme', went_on: 'its record left a wanted cell blank' }])
  expect(fields.map(({ service, column }) => `${service} ${column}`)).toEqual(
    expect.arrayContaining(['acme title', 'acme phone', 'beta phone', 'beta level']),
  )
  const none = await app.explain('people', await keyOf(`state = 'not_found'`))
  expect(none.lookup).toMatchObject({ service: 'beta', state: 'not_found' })
  expect(none.next.what).toBe('looked up again, because the service may have a match by then')
  expect(none.next.at).not.toBeNull()
  await app.close()
})

test('an undo restores columns that only a later service fills', async () => {
  const app = await services.open({ config: after })
  const run = await services.database.scalar<number>('select max(run_id)::int from fillrate.changes')
  const { signal } = new AbortController()
  const report = await app.undo({ run, dryRun: false, signal })
  await app.close()
  expect(report.changes).toMatchObject({ rejected: 0, remaining: 0, kept: 0 })
  expect(await services.count('people where level is not null or phone is not null')).toBe(0)
})

test('a remap waits while Postgres is away, also between two pages', async () => {
  const lookups = await services.database.checksum(LOOKUPS)
  const readers = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%from fillrate.rows r%order by r.key limit%'`
  let remapped: Promise<readonly object[]> | null = null
  await whileOpen(services.database, 'lock table fillrate.rows in access exclusive mode', async () => {
    // Settled: a rejection is looked at later.
    remapped = Promise.allSettled([remap(false)])
    await expect.poll(() => services.count(`(select ${readers}) as reader`)).toBeGreaterThan(0)
    await services.query(`select pg_terminate_backend(pid) ${readers}`)
  })
  expect(await remapped).toMatchObject([{ value: { report: { status: 'completed' } } }])
  expect(await services.database.checksum(LOOKUPS)).toBe(lookups)
})

test.each([
  ['while the first service’s records are written', `old.state = 'waiting' and new.state = 'enriched'`],
  ['before those of the second are queued', `new.state = 'waiting' and new.only_blanks`],
])('a remap that is killed %s leaves the order in which they were asked', async (_, when) => {
  const { database } = services
  const lookups = await database.checksum(LOOKUPS)
  const cli = await createCommandLine(database.url, services.sandboxes, after)
  const blocked = `(select from pg_locks where locktype = 'advisory' and not granted
     and database = (select oid from pg_database where datname = current_database())) waiting`
  try {
    await services.query(`
      update people set phone = null, level = null;
      create function wait_for_test() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger wait_for_test before update on fillrate.rows for each row when (${when}) execute function wait_for_test()`)
    await whileOpen(database, 'select pg_advisory_xact_lock(7)', async () => {
      const { child, ended } = cli.start('remap', 'people')
      await expect.poll(() => services.count(blocked)).toBeGreaterThan(0)
      child.kill('SIGKILL')
      await ended
    })
    await services.query('drop function wait_for_test() cascade')
    const touched = await services.query<{ key: string }>(`
      select key from fillrate.rows where run_id = (select max(id) from fillrate.runs)`)
    const app = await services.open({ config: after })
    const orders = new Set<string>()
    for (const { key } of touched) {
      const { missed_lookups: missed, lookup } = await app.explain('people', key)
      orders.add([...missed, lookup].flatMap((one) => one?.service ?? []).join())
    }
    await app.close()
    expect([...orders].sort()).toEqual(['acme', 'acme,beta'])
    expect(await remap(false)).toMatchObject({ report: { status: 'completed' } })
    expect(await services.run({ route: 'sync' })).toMatchObject({
      lookups: { requested: 0 },
      rows: { waiting: 0 },
    })
    expect(await database.checksum(LOOKUPS)).toBe(lookups)
  } finally {
    await cli.remove()
  }
})
