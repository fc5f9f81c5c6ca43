import { expect, onTestFinished, test } from 'vitest'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, startHarness } from '../../support/harness.ts'

test.each([
  [
    'a renamed column',
    'alter table crm.contacts rename column seniority to seniority_level',
    'seniority_level',
  ],
  ['a table that is gone', 'drop table crm.contacts', 'crm.contacts'],
])(
  'a source with %s is left out of a run under way, and the others are enriched',
  async (_, breakIt, named) => {
    const harness = await startHarness({
      config: withAccounts,
      sandbox: { missingShare: 0, notFoundShare: 0 },
      prepare: ({ pool }) => createCrm(pool, 10, 20),
    })
    onTestFinished(() => harness.close())
    const app = await harness.open()
    onTestFinished(() => app.close())
    const { pool } = harness.database
    // The process has checked it before: as a daemon has at its start.
    await pool.query(breakIt)
    await expect(app.run(runRequest({ route: 'sync' }))).rejects.toThrow(named)
    const { rows } = await pool.query('select state, reason from fillrate.runs')
    expect(rows).toEqual([{ state: 'failed', reason: expect.stringContaining('contacts') }])
    const filled = await pool.query('select from crm.accounts where industry is not null')
    expect(filled.rowCount).toBe(20)
  },
)
