import { afterEach, beforeEach, expect, test } from 'vitest'
import type { UndoReport } from '../../../src/actions/undo/report.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'
import { checksum, states } from './tables.ts'

let harness: Harness
beforeEach(async () => {
  harness = await startHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 700) })
})
afterEach(() => harness.close())

/** The parts of the total. */
const sumOf = ({ changes }: UndoReport): number =>
  Object.values(changes).reduce((sum, n) => sum + n, 0) - changes.total

test('an undo restores the table to the byte, and no run writes the same again', async () => {
  const { pool } = harness.database
  const before = await checksum(pool, 'crm.contacts')
  const run = await harness.run()
  const after = await checksum(pool, 'crm.contacts')
  expect(after).not.toBe(before)

  const plan = await harness.undo(run.run, { dryRun: true })
  expect(plan).toMatchObject({ run: null, dry_run: true, changes: { restored: run.rows.enriched, kept: 0 } })
  expect(await checksum(pool, 'crm.contacts')).toBe(after)

  const report = await harness.undo(run.run)
  expect(report).toMatchObject({ undoes: run.run, status: 'completed', kept: [], failed: [] })
  expect(report.changes).toEqual({ ...plan.changes })
  expect(report.changes.total).toBe(sumOf(report))
  expect(report.cells).toEqual({ restored: run.cells.written, touched: run.rows.enriched, kept: 0 })
  expect(await checksum(pool, 'crm.contacts')).toBe(before)
  expect(await harness.count('fillrate.rows where last_written is not null')).toBe(0)

  const calls = harness.calls()
  const next = await harness.run()
  expect(next.rows.picked).toBe(0)
  expect(harness.calls()).toBe(calls)
  expect(await checksum(pool, 'crm.contacts')).toBe(before)
  expect(await states(pool, 'contacts')).toEqual({
    unchanged: run.rows.enriched + run.rows.unchanged,
    not_found: run.rows.not_found,
  })
})

test('an undo can be undone, and so on', async () => {
  const { pool } = harness.database
  const before = await checksum(pool, 'crm.contacts')
  const run = await harness.run()
  const after = await checksum(pool, 'crm.contacts')
  const written = await checksum(pool, '(select key, last_written from fillrate.rows)')
  let last = run.run
  for (const [expected, enriched] of [
    [before, 0],
    [after, run.rows.enriched],
    [before, 0],
    [after, run.rows.enriched],
  ] as const) {
    const report = await harness.undo(last)
    expect(report).toMatchObject({ changes: { restored: run.rows.enriched, total: run.rows.enriched } })
    expect(await checksum(pool, 'crm.contacts')).toBe(expected)
    expect((await states(pool, 'contacts'))['enriched'] ?? 0).toBe(enriched)
    expect((await harness.run()).rows.picked).toBe(0)
    last = report.run ?? 0
  }
  expect(await checksum(pool, '(select key, last_written from fillrate.rows)')).toBe(written)
})
