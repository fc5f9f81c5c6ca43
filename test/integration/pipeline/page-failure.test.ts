import { expect, test } from 'vitest'
import { crmConfig, createCrm } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

const { contacts } = crmConfig.sources
const harness = useHarness({
  config: {
    ...crmConfig,
    sources: {
      contacts: {
        ...contacts,
        joins: 'left join crm.mails m on m.contact = t.id',
        inputs: { email: 'm.address' },
      },
    },
  },
  prepare: async ({ pool }) => {
    await createCrm(pool, 20)
    await pool.query(`
        create table crm.mails (contact bigint, address text);
        insert into crm.mails values (7, 'one@example.com'), (7, 'two@example.com')`)
  },
})

test('joins that return two rows for a key stop plan and run before any request, naming the key', async () => {
  const app = await harness.open()
  const problem = {
    name: 'SourceProblems',
    problems: [{ source: 'contacts', place: 'joins', key: '7' }],
  }
  await expect(app.plan(runRequest())).rejects.toMatchObject(problem)
  await expect(app.run(runRequest())).rejects.toMatchObject(problem)
  expect(harness.calls()).toBe(0)
  const rows = await harness.query('select state, reason from fillrate.runs')
  expect(rows).toEqual([{ state: 'failed', reason: 'contacts.joins: more than one row' }])
})
