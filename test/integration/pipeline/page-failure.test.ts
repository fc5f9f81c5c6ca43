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

test('a due row on which an expression fails is named', async () => {
  await harness.query(`delete from crm.mails; insert into crm.mails select id, email from crm.contacts`)
  const app = await harness.open({
    config: {
      ...crmConfig,
      sources: {
        contacts: {
          ...crmConfig.sources.contacts,
          changedAt: 't.enriched_at',
          inputs: { email: "case when t.company = 'broken' then (1 / (t.id - 13))::text else t.email end" },
        },
      },
    },
  })
  await app.run(runRequest({ route: 'sync' }))
  await harness.query(`
    update fillrate.rows set due_at = now();
    update fillrate.source_state set changed_until = now() + interval '1 day';
    update crm.contacts set company = 'broken' where id = 13`)
  await expect(app.run(runRequest({ route: 'sync' }))).rejects.toMatchObject({
    problems: [{ place: 'inputs.email', found: 'division by zero (22012)', key: '13' }],
  })
})
