import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Plan } from '../../../src/domain/report/plan.ts'
import type { Config } from '../../../src/config/config.ts'
import { runRequest } from '../../support/harness.ts'
import { exampleNames, openExample, type Example } from './example.ts'
import { changesBetween, checksums, readTables, valueAt, type Json, type Tables } from './tables.ts'
import { isBlank, readExpected, type Expected } from './expected.ts'

/** Columns set by `touch` or by the database: not outputs. */
const BESIDE = new Set(['updated_at', 'updatedAt', 'write_date', 'modified_at', 'searchVector'])

/** `public.a`, `"b"."c"` → `a`, `b.c`, as the tables of the test are named. */
const plain = (table: string): string => table.replaceAll('"', '').replace(/^public\./, '')

describe.each(exampleNames)('%s', (name) => {
  let example: Example
  let expected: Expected
  let before: Tables
  let sums: Record<string, string>
  let run: number
  beforeAll(async () => {
    example = await openExample(name)
    expected = await readExpected(example.database.pool)
    before = await readTables(example.database.pool)
    sums = await checksums(example.database.pool)
  })
  afterAll(() => example.close())

  test('has complete rows, faulty inputs, shared lookups and typed values', () => {
    const outcomes = [...expected.sources.values()]
    expect(outcomes.some((source) => source.complete > 0)).toBe(true)
    expect(outcomes.some((source) => Object.keys(source.faults).length > 1)).toBe(true)
    expect(outcomes.reduce((sum, source) => sum + source.validInput, 0)).toBeGreaterThan(expected.distinct)
    expect(Object.keys(expected.byKind).length).toBeGreaterThan(1)
    expect(expected.typed).toBeGreaterThan(50)
  })

  test('passes check without a warning about its sources', async () => {
    const { ok, checks } = (await example.check()) as { ok: boolean; checks: object[] }
    expect(ok).toBe(true)
    for (const source of Object.keys(example.config.sources))
      expect(checks).toContainEqual(expect.objectContaining({ name: `source ${source}`, verdict: 'ok' }))
  })

  test('plan reports the counts that plain SQL computes, and writes nothing', async () => {
    const plan = await example.act((app) => app.plan(runRequest()))
    expectSources(plan, expected)
    expect(plan.lookups).toMatchObject({
      distinct: expected.distinct,
      stored: 0,
      requested: expected.distinct,
      to_request: { email: 0, linkedin_url: 0, name_company: 0, domain: 0, ...expected.byKind },
    })
    expect(await readTables(example.database.pool)).toEqual(before)
  })

  test('a run does what the plan reported, and writes only blank cells of the example', async () => {
    const plan = await example.act((app) => app.plan(runRequest()))
    const report = await example.act((app) => app.run(runRequest()))
    run = report.run
    const sources = [...expected.sources.values()]
    const { picked, ...states } = report.rows
    expect(picked).toBe(sources.reduce((sum, source) => sum + source.rows - source.complete, 0))
    expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(picked)
    expect(states).toMatchObject({ waiting: 0, failed: 0, rejected: 0, suppressed: 0, write_rejected: 0 })
    expect(report.lookups).toMatchObject({
      distinct: expected.distinct,
      stored: 0,
      requested: expected.distinct,
    })
    expect(report.lookups.found + report.lookups.not_found).toBe(expected.distinct)
    expect(report.requests).toMatchObject({
      person: plan.calls.person,
      company: plan.calls.company,
      bulk: plan.calls.bulk,
    })
    expect(await faultsFound(example)).toEqual(
      Object.fromEntries([...expected.sources].map(([source, { faults }]) => [source, faults])),
    )

    const after = await readTables(example.database.pool)
    const changes = changesBetween(before, after)
    const written = changes.filter((change) => !BESIDE.has(change.cell))
    expect(written.length).toBe(report.cells.written)
    const enriched = new Set(written.map(({ table, key }) => `${table} ${key}`))
    expect(enriched.size).toBe(states.enriched)
    expect(written.filter((change) => !isBlank(change.before))).toEqual([])
    expect(written.filter((change) => isBlank(change.after))).toEqual([])
    const unexpected = changes.filter(
      ({ table, key, cell }) =>
        ownerOf(example.config, expected, table, key)?.cells.includes(cell) !== true &&
        !(BESIDE.has(cell) && enriched.has(`${table} ${key}`)),
    )
    expect(unexpected).toEqual([])
    expect(states.enriched).toBeGreaterThan(picked / 3)
    await expectRecords(example, expected, before, after)
    expect(await readExpected(example.database.pool).then((now) => now.typedSum(expected))).toBe(
      expected.typedSum(expected),
    )
  })

  test('a second run makes no call and no write', async () => {
    const finished = await readTables(example.database.pool)
    expect(await example.act((app) => app.run(runRequest()))).toMatchObject({
      lookups: { requested: 0 },
      requests: { person: 0, company: 0, bulk: 0 },
      cells: { written: 0 },
    })
    expect(await readTables(example.database.pool)).toEqual(finished)
  })

  test('undo, redo and undo restore every byte', async () => {
    const { pool } = example.database
    const written = await checksums(pool)
    expect(written).not.toEqual(sums)
    for (const sum of [sums, written, sums]) {
      const undone = await example.act((app) =>
        app.undo({ run, dryRun: false, signal: new AbortController().signal }),
      )
      expect(undone).toMatchObject({ kept: [], failed: [], changes: { restored: undone.changes.total } })
      expect(await checksums(pool)).toEqual(sum)
      run = undone.run ?? 0
    }
  })
})

function expectSources(plan: Plan, expected: Expected): void {
  const planned = plan.sources.map(({ source, rows, complete, picked, valid_input, invalid_input }) => [
    source,
    { rows, complete, picked, validInput: valid_input, faults: invalid_input },
  ])
  const counted = [...expected.sources].map(([source, { rows, complete, validInput, faults }]) => [
    source,
    { rows, complete, picked: rows - complete, validInput, faults },
  ])
  expect(Object.fromEntries(planned)).toEqual(Object.fromEntries(counted))
}

/** The stored reasons of rows without a usable input, counted. */
async function faultsFound({ database, config }: Example): Promise<Record<string, Record<string, number>>> {
  const rows = await database.query<{ source: string; reason: string; count: number }>(
    `select source, reason, count(*)::int from fillrate.rows where state = 'invalid_input' group by 1, 2`,
  )
  return Object.fromEntries(
    Object.keys(config.sources).map((name) => [
      name,
      Object.fromEntries(
        rows.filter(({ source }) => source === name).map(({ reason, count }) => [reason, count]),
      ),
    ]),
  )
}

/** The source that may write this row: the one for which it has a valid input. */
function ownerOf(
  config: Config,
  expected: Expected,
  table: string,
  key: string,
): { cells: string[] } | undefined {
  return Object.values(config.sources)
    .filter((source) => plain(source.table) === table)
    .map((source) => expected.validInput.get(`${source.name} ${key}`))
    .find((owner) => owner !== undefined)
}

/** Each filled cell holds the value of its row's own record, and no blank cell was skipped. */
async function expectRecords(
  { config, database }: Example,
  expected: Expected,
  before: Tables,
  after: Tables,
): Promise<void> {
  for (const source of Object.values(config.sources)) {
    const copied = source.outputs.filter(
      ({ map, sql, group, matches, minConfidence }) =>
        map === null && sql === null && group === null && matches === null && minConfidence === null,
    )
    const rows = await database.query<{ key: string; record: Json }>(
      `select r.key, l.record from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
        where r.source = $1 and r.state = 'enriched'`,
      [source.name],
    )
    expect(rows.length).toBeGreaterThan(0)
    for (const { key, record } of rows)
      for (const { column, field } of copied) {
        const was = valueAt(before.get(plain(source.table))?.get(key), column)
        const delivered = valueAt(record, field)
        const isOpen = !expected.values.has(`${source.name} ${key} ${column}`)
        const filled = isOpen && !isBlank(delivered) ? delivered : was
        expect([key, column, valueAt(after.get(plain(source.table))?.get(key), column)]).toEqual([
          key,
          column,
          filled,
        ])
      }
  }
}
