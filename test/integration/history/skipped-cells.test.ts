import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SkippedGroup } from '../../../src/domain/report/run.ts'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { deleteRecords } from '../../../src/store/retention.ts'
import { groupSkippedCells } from '../../../src/store/skipped-cells.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { runProgram } from '../../support/program.ts'
import { createCrm, withContacts } from '../../support/crm.ts'
import { useFreshHarness } from '../../support/harness.ts'

const outputs = {
  title: 'title',
  // Four of the six labels of the service have no entry.
  seniority: { field: 'seniority', map: { vp: 'VP', director: 'Director' } },
  phone: { field: 'phone', matches: '^[+]47' },
  level: 'department',
  slug: { field: 'title', sql: "nullif(lower($value), '')" },
}
const config = withContacts({ outputs })

let cli: CommandLine
const harness = useFreshHarness({
  config,
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: async ({ pool }) => {
    await createCrm(pool, 60)
    await pool.query(`alter table crm.contacts add level smallint, add slug varchar(12)`)
  },
})
beforeEach(async () => {
  cli = await createCommandLine(harness.database.url, harness.sandbox, config)
})
afterEach(() => cli.remove())

const fillrate = (...words: string[]) => runProgram({ cwd: cli.folder, env: cli.environment }, ...words)

/** The same from the stored records, with plain SQL. */
const expected = (column: string, where: string): Promise<number> =>
  harness.count(
    `fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
       join crm.contacts c on c.id::text = r.key where c.${column} is null and ${where}`,
  )
const UNMAPPED = `l.record ->> 'seniority' not in ('vp', 'director')`

const find = (groups: readonly SkippedGroup[], column: string): SkippedGroup | undefined =>
  groups.find((group) => group.column === column)

test('every skipped cell is listed with key, column, value and reason', async () => {
  const { db } = harness.database
  const report = await harness.run()
  const groups = report.skipped_cells
  expect(groups.map(({ rows }) => rows)).toEqual(groups.map(({ rows }) => rows).sort((a, b) => b - a))
  expect(find(groups, 'seniority')).toMatchObject({
    reason: 'unmapped',
    rows: await expected('seniority', UNMAPPED),
  })
  expect(find(groups, 'level')).toMatchObject({ reason: 'not_an_integer', rows: 60 })
  expect(find(groups, 'phone')?.rows).toBe(await expected('phone', `l.record ->> 'phone' !~ '^[+]47'`))
  expect(find(groups, 'slug')?.rows).toBe(await expected('slug', `length(l.record ->> 'title') > 12`))
  expect(report.cells.skipped).toBe(groups.reduce((sum, group) => sum + group.rows, 0))
  expect(groups).toEqual(await groupSkippedCells(db, { source: 'contacts' }))

  // Each value of an enum without an entry, and how often it occurs.
  const values = await harness.scalar<Record<string, number>>(
    `select json_object_agg(label, count) from (
       select l.record ->> 'seniority' as label, count(*)::int from fillrate.rows r
         join fillrate.lookups l on l.id = r.lookup_id where ${UNMAPPED} group by 1) v`,
  )
  const listed = find(groups, 'seniority')?.values.map(({ value, rows }) => [value, rows])
  expect(Object.fromEntries(listed ?? [])).toEqual(values)

  const text = (await fillrate('failures')).stdout
  for (const [value, rows] of Object.entries(values)) expect(text).toContain(`${value} (${rows})`)
  expect(text).toContain('`map` has no entry for the value')
  expect(text).toContain('the value is not an integer')
  expect(text).not.toMatch(/not_an_integer|no_match|unmapped/)

  const lines = (await fillrate('failures', '--csv')).stdout.trim().split('\r\n')
  expect(lines).toHaveLength(1 + report.cells.skipped)
  expect(lines[1]).toMatch(/^contacts,1,enriched,the value is not an integer,[^,]+,level,\w/)

  // The stored report has no values: they may have to be erased.
  const stored = await harness.scalar<{ skipped_cells: SkippedGroup[] }>('select totals from fillrate.runs')
  expect(stored.skipped_cells.map((group) => group.values)).toEqual(groups.map(() => []))
})

test('a dry run reports what would be skipped, and stores nothing', async () => {
  const dry = await harness.run({ dryRun: { sample: 0 } })
  expect(dry.cells.skipped).toBe(dry.skipped_cells.reduce((sum, group) => sum + group.rows, 0))
  expect(await harness.count('fillrate.skipped_cells')).toBe(0)
  const real = await harness.run()
  const sorted = (groups: readonly SkippedGroup[]): unknown =>
    groups.map(({ column, reason, rows, distinct_values }) => ({ column, reason, rows, distinct_values }))
  expect(sorted(dry.skipped_cells)).toEqual(sorted(real.skipped_cells))
})

test('explain says of every output why it was or was not written', async () => {
  await harness.run()
  await harness.query(`update crm.contacts set seniority = 'Typed' where id = 1`)
  const key = await harness.scalar<string>(
    `select key from fillrate.skipped_cells where "column" = 'seniority' and key <> '1' order by key limit 1`,
  )
  const app = await harness.open()
  const { fields, state } = await app.explain('contacts', key)
  const results = Object.fromEntries(fields.map((field) => [field.column, field.result]))
  expect(results).toMatchObject({
    title: expect.stringMatching(/^written by run 1$|same value|protects/),
    seniority: 'not written: `map` has no entry for the value',
    level: 'not written: the value is not an integer',
  })
  expect(JSON.stringify(results)).not.toMatch(/no_value|no_match|unmapped|not_an/)
  expect(state?.reason).toContain('seniority: `map` has no entry for the value')

  // Written and then emptied, undone, typed: each has words of its own.
  await harness.query(`update crm.contacts set title = null where id = ${key}`)
  const emptied = (await app.explain('contacts', key)).fields[0]
  expect(emptied).toMatchObject({ skipped: null, result: 'written by run 1, and emptied since' })
  const text = (await fillrate('explain', 'contacts', key)).stdout
  expect(text).toContain('not written: `map` has no entry for the value')
  expect(text).not.toMatch(/no_value|no_match|unmapped|not_an/)
})

test('a cell is no longer listed once it is written, and a remap lists what its mapping leaves', async () => {
  await harness.run()
  const all = { c_suite: 'C', vp: 'VP', director: 'Director', manager: 'M', senior: 'S' }
  const widened = withContacts({ outputs: { ...outputs, seniority: { field: 'seniority', map: all } } })
  // A person types one of the values: the row would not change, and its cell is protected.
  const typed = await harness.scalar<string>(
    `select r.key from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
      where l.record ->> 'seniority' = 'senior' order by r.key limit 1`,
  )
  await harness.query(`update crm.contacts set seniority = 'Typed' where id = ${typed}`)
  const plan = await harness.remap('contacts', { config: widened, dryRun: true })
  const { skipped_cells: left } = await harness.remap('contacts', { config: widened })
  expect(plan.skipped_cells).toEqual(left)
  const entries = await expected('seniority', `l.record ->> 'seniority' = 'entry'`)
  expect(find(left, 'seniority')).toMatchObject({
    rows: entries,
    values: [{ value: 'entry', rows: entries }],
  })
  expect(await harness.count(`fillrate.skipped_cells where "column" = 'seniority'`)).toBe(entries)
  expect(
    await harness.count(`fillrate.skipped_cells where key = '${typed}' and "column" = 'seniority'`),
  ).toBe(0)
})

test('a row that is picked again and not looked up has no skipped cells any more', async () => {
  await harness.run()
  const key = await harness.scalar<string>('select min(key) from fillrate.skipped_cells')
  await harness.query(`update crm.contacts set email = 'no address' where id = ${key}`)
  expect((await harness.run()).rows.invalid_input).toBe(1)
  expect(await harness.count(`fillrate.skipped_cells where key = '${key}'`)).toBe(0)
})

test('an undo leaves the skipped cells listed: their values are not written', async () => {
  const { db } = harness.database
  const { run } = await harness.run()
  const before = await groupSkippedCells(db, {})
  const undo = await harness.undo(run)
  expect(await groupSkippedCells(db, {})).toEqual(before)
  await harness.undo(undo.run ?? 0)
  expect(await groupSkippedCells(db, {})).toEqual(before)
  expect(await harness.count('fillrate.skipped_cells where run_id <> 1')).toBe(0)
})

test('a forgotten person and an expired record leave no skipped cell', async () => {
  const { db } = harness.database
  await harness.run()
  const [{ key, phone }] = (await harness.query(
    `select key, value #>> '{}' as phone from fillrate.skipped_cells where "column" = 'phone' order by key limit 1`,
  )) as [{ key: string; phone: string }]
  const email = await harness.scalar<string>(`select lower(email) from crm.contacts where id = ${key}`)
  const target = parseForgetTarget('email', email)
  if (typeof target === 'string') throw new Error(target)
  const log = pino({ level: 'silent' })
  expect((await forgetSubject({ db, log }, [target], { dryRun: false })).remaining).toEqual([])
  expect(
    await harness.count(`fillrate.skipped_cells c where key = '${key}' or c::text like '%${phone}%'`),
  ).toBe(0)
  const app = await harness.open()
  const story = await app.explain('contacts', key)
  expect(story.next.what).toMatch(/^nothing: /)
  expect(story.row).toMatchObject({ lookup_request: null, is_suppressed: true })
  const text = (await fillrate('explain', 'contacts', key)).stdout
  expect(text).not.toMatch(/next lookup|picks it|due/)
  // Not by the run that had enriched it.
  expect(text).toMatch(/^ +suppressed, /m)

  expect(await harness.count('fillrate.skipped_cells')).toBeGreaterThan(0)
  await harness.query(`update fillrate.lookups set resolved_at = now() - interval '2 days'`)
  await deleteRecords(db, { recordsMs: 86_400_000, changesMs: null }, 0, 1_000)
  expect(await harness.count('fillrate.skipped_cells')).toBe(0)
})

test('an error text of a trigger is stored without values, so that rows share a reason', async () => {
  const { db } = harness.database
  await harness.query(`
    create function crm.guard() returns trigger language plpgsql as $$
    begin
      raise exception 'contact % (%) "%" may not become %', new.id, new.email, new.phone, new.title;
    end $$;
    create trigger guard before update on crm.contacts for each row execute function crm.guard()`)
  const report = await harness.run()
  // The other rows have nothing to write.
  expect(report.rows).toMatchObject({ enriched: 0, write_rejected: 55 })
  const reason = await harness.scalar(
    `select json_agg(distinct reason) from fillrate.rows where state = 'write_rejected'`,
  )
  expect(reason).toEqual(['raised by a trigger or function: contact … (…) … may not become …'])
  const { stdout } = await fillrate('failures', '--json')
  expect((JSON.parse(stdout) as { reasons: object[] }).reasons).toHaveLength(1)
  // Each value that a rejected row did not get is listed.
  const rejected = (await groupSkippedCells(db, {})).filter((group) => group.reason === 'rejected')
  expect(rejected.map(({ column }) => column)).toEqual(expect.arrayContaining(['title']))
  expect(rejected.every((group) => group.description.endsWith('may not become …'))).toBe(true)
})
