import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { GROUP_ROWS, startServiceGroup } from '../../support/service-group.ts'
import type { Harness } from '../../support/harness.ts'

// What was asked and written by several services in turn.

let harness: Harness
beforeAll(async () => {
  harness = await startServiceGroup()
})
afterAll(() => harness.close())

const explain = async (key: string) => (await harness.open()).explain('people', key)

test('explain names the service of each lookup, in the order in which they were asked, and who filled which cell', async () => {
  const both = await explain(GROUP_ROWS.both)
  expect(both.missed_lookups).toMatchObject([
    { service: 'acme', state: 'found', run: 1, went_on: 'its record left a wanted cell blank' },
  ])
  expect(both.lookup).toMatchObject({ service: 'pdl', state: 'found', run: 2 })
  expect(both.row.columns).toMatchObject([
    { column: 'title', service: 'acme', written_by: 1 },
    { column: 'phone', service: 'pdl', written_by: 2 },
  ])
  expect(both.changes).toMatchObject([
    { run: 2, service: 'pdl', cells: [{ column: 'phone' }] },
    { run: 1, service: 'acme', cells: [{ column: 'title' }] },
  ])
  expect(both.fields).toMatchObject([
    { column: 'title', result: 'not written: the column holds what run 1 wrote from acme' },
    { column: 'phone', result: 'written by run 2' },
  ])
  const none = await explain(GROUP_ROWS.none)
  expect([...none.missed_lookups, none.lookup]).toMatchObject([
    { service: 'acme', state: 'not_found', went_on: 'it had no match' },
    { service: 'pdl', state: 'not_found' },
  ])
})

test('forget erases what each of the services has answered about a person', async () => {
  const { db } = harness.database
  const email = `p${GROUP_ROWS.secondOnly}@example.com`
  const target = parseForgetTarget('email', email)
  if (typeof target === 'string') throw new Error(target)
  const report = await forgetSubject({ db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
  expect(report).toMatchObject({ erased: { lookups: 2, records: 1, rows: 1, changes: 1 }, remaining: [] })
  expect(await harness.query(`select from fillrate.lookups where key = '${email}'`)).toEqual([])
  expect(await explain(GROUP_ROWS.secondOnly)).toMatchObject({
    state: { state: 'suppressed' },
    lookup: null,
    missed_lookups: [],
    changes: [],
  })
})
