import { beforeEach, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// Deleted rows are compared after a pass: also after one that has failed.

const config = {
  ...crmConfig,
  sources: {
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: `case when t.website = 'broken' then (1 / (t.id - t.id))::text else t.website end` },
      outputs: { employees: 'employee_count' },
    },
    contacts: crmConfig.sources.contacts,
  },
}
const request = runRequest({ route: 'sync' })

const harness = useHarness({
  config,
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 30, 3),
})
beforeEach(async () => {
  await harness.query(`truncate crm.contacts, crm.accounts, fillrate.rows restart identity cascade`)
  await harness.query(
    `insert into crm.contacts (email) select 'person' || n || '@example.com' from generate_series(1, 20) n`,
  )
  await harness.run(request)
  await harness.query(`delete from crm.contacts where id = 5`)
})

const listDeleted = () => harness.query('select key from fillrate.rows where deleted_at is not null')

test('rows that were deleted are noticed although another source cannot be read', async () => {
  await harness.query(`insert into crm.accounts (website) values ('broken')`)
  await expect(harness.run(request)).rejects.toThrow('division by zero')
  expect(await listDeleted()).toEqual([{ key: '5' }])
})

test('rows that were deleted are noticed although the service rejects the key', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'new' || n || '@example.com' from generate_series(1, 5000) n`,
  )
  const app = await harness.open({ environment: { apiKey: 'wrong' } })
  expect(await app.run(request)).toMatchObject({ status: 'unauthorized' })
  await app.close()
  expect(await listDeleted()).toEqual([{ key: '5' }])
})
