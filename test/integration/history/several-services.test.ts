import { afterEach, beforeEach, expect, test } from 'vitest'
import { createStatusReport } from '../../../src/actions/status.ts'
import { noSpendSettings } from '../../support/spend.ts'
import { listRuns } from '../../../src/store/runs.ts'
import { type Harness, startHarness } from '../../support/harness.ts'
import { withPeople } from '../../support/crm.ts'

// What was asked and written by several services in turn.

/** Rows by what the two services know of them: of the first `acme` knows the title, and `pdl` adds the phone. */
const TURN_ROWS = { both: '5', secondOnly: '2', none: '12' } as const

let harness: Harness
beforeEach(async () => {
  harness = await startHarness({
    config: {
      services: { acme: {}, pdl: {} },
      sources: {
        people: {
          kind: 'person',
          table: 'people',
          inputs: { email: 't.email' },
          services: ['acme', { name: 'pdl', when: 'blank' }],
          outputs: { title: 'title', phone: 'phone' },
        },
      },
      budget: 'unlimited',
    },
    services: {
      acme: { notFoundShare: 0.4, missingShare: 0.2, seed: 1 },
      pdl: { notFoundShare: 0.2, missingShare: 0, seed: 2 },
    },
    prepare: withPeople(20, 'phone text'),
  })
  await harness.run({ route: 'sync' })
})
afterEach(() => harness.close())

const explain = async (key: string) => (await harness.open()).explain('people', key)

test('explain names the service of each lookup, in the order in which they were asked, and who filled which cell', async () => {
  const both = await explain(TURN_ROWS.both)
  expect(both.missed_lookups).toMatchObject([
    { service: 'acme', state: 'found', run: 1, went_on: 'its record left a wanted cell blank' },
  ])
  expect(both.lookup).toMatchObject({ service: 'pdl', state: 'found', run: 1 })
  expect(both.row.columns).toMatchObject([
    { column: 'title', service: 'acme', written_by: 1 },
    { column: 'phone', service: 'pdl', written_by: 1 },
  ])
  expect(both.changes).toMatchObject([
    { run: 1, service: 'pdl', cells: [{ column: 'phone' }] },
    { run: 1, service: 'acme', cells: [{ column: 'title' }] },
  ])
  expect(both.fields).toMatchObject([
    { service: 'acme', column: 'title', result: 'written by run 1' },
    { service: 'acme', column: 'phone', result: 'not written: the record has no value' },
    { service: 'pdl', column: 'title', result: 'not written: the column holds what run 1 wrote from acme' },
    { service: 'pdl', column: 'phone', result: 'written by run 1' },
  ])
  const none = await explain(TURN_ROWS.none)
  expect([...none.missed_lookups, none.lookup]).toMatchObject([
    { service: 'acme', state: 'not_found', went_on: 'it had no match' },
    { service: 'pdl', state: 'not_found' },
  ])
})

const filled = async (): Promise<number[]> =>
  Object.values(
    (await harness.query('select count(title)::int as t, count(phone)::int as p from people'))[0] ?? {},
  ) as number[]

test('an undo of the run undoes the writes of all its services', async () => {
  expect(await filled()).toEqual([18, 19])
  const preview = await harness.undo(1, { dryRun: true })
  const report = await harness.undo(1)
  // Three rows by `acme` alone, six by both, ten by `pdl` alone.
  expect(report).toMatchObject({ undoes: 1, changes: { total: 25, restored: 25, remaining: 0 } })
  expect(preview).toEqual({ ...report, run: null, dry_run: true, duration_ms: preview.duration_ms })
  expect(await filled()).toEqual([0, 0])
  expect(await explain(TURN_ROWS.both)).toMatchObject({
    state: { state: 'unchanged', reason: 'undone by run 2, which undid run 1' },
  })
  const again = await harness.undo(2)
  expect(again).toMatchObject({ changes: { restored: 25 } })
  expect(await filled()).toEqual([18, 19])
})

test('runs and status show one run, with what each service did in it', async () => {
  const { db } = harness.database
  const services = [
    { service: 'acme', status: 'completed', cells: { written: 11 } },
    { service: 'pdl', status: 'completed', cells: { written: 26 } },
  ]
  expect(await listRuns(db, 10)).toMatchObject([{ id: 1, totals: { services } }])
  expect(await createStatusReport(db, noSpendSettings)).toMatchObject({
    last_run: { id: 1, totals: { services } },
  })
  // An undo calls no service.
  await harness.undo(1)
  const [undo] = await listRuns(db, 1)
  expect(undo?.totals).not.toHaveProperty('services')
})
