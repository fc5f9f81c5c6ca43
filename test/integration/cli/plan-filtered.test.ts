import { expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// `plan` shows what each condition of a source leaves out, and `explain` which of them a row does not meet.

const where = ['t.id > 10', 't.title is distinct from $$Chief$$ -- nobody', 't.phone::bigint < 5']
const { contacts } = crmConfig.sources
const { here, database } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 40)
    await pool.query(
      "update crm.contacts set title = case when id between 6 and 20 then 'Chief' end, phone = '1'",
    )
    // NULL is not true: a condition that knows nothing of a row leaves it out.
    await pool.query('update crm.contacts set phone = null where id > 30')
  },
  config: {
    ...crmConfig,
    budget: 100,
    sources: { contacts: { ...contacts, where, joins: undefined, inputs: { email: contacts.inputs.email } } },
  },
})
const counted = [
  { condition: where[0], rows: 10, alone: 5 },
  { condition: where[1], rows: 15, alone: 10 },
  { condition: where[2], rows: 10, alone: 10 },
]

test('counts the rows that each condition leaves out, and those that it alone does', async () => {
  const { sources } = JSON.parse((await here(['plan', '--json', '--budget', 'unlimited'])).stdout)
  expect(sources).toMatchObject([
    { table: 40, filtered_out: 30, rows: 10, conditions: counted, conditions_error: null },
  ])
  expect(sources[0].conditions[0]).not.toHaveProperty('keys')
  const { stdout } = await here(['plan', '--budget', 'unlimited'])
  expect(stdout).toContain("30  by the source's filter and joins")
  expect(stdout).toMatch(/\n +10 by t\.id > 10, 5 by it alone\n/)
  expect(stdout).toMatch(/\n +10 by t\.phone::bigint < 5\n/)
})

test('--list filtered names five rows of each, those that it alone leaves out first', async () => {
  const { stdout } = await here(['plan', '--list', 'filtered', '--json', '--limit', '1'])
  expect(JSON.parse(stdout).sources).toMatchObject([
    {
      table: null,
      conditions: [
        { ...counted[0], keys: ['1', '2', '3', '4', '5'] },
        { ...counted[1], keys: ['11', '12', '13', '14', '15'] },
        { ...counted[2], keys: ['31', '32', '33', '34', '35'] },
      ],
    },
  ])
  const text = await here(['plan', '--list', 'filtered'])
  expect(text.stdout).toMatch(/\n +10 by t\.id > 10, 5 by it alone: 1, 2, 3, 4, 5\n/)
  const limited = await here(['plan', '--list', 'filtered', '--limit', '1'])
  expect(limited.stdout).toMatch(/\n +10 by t\.phone::bigint < 5: 31, 32, 33, 34, 35\n/)
  expect((await here(['plan', '--list', 'filtered', '--csv', '-'])).code).toBe(2)
})

test('explain names the conditions that a row does not meet', async () => {
  const { row } = JSON.parse((await here(['explain', 'contacts', '7', '--json'])).stdout)
  expect(row).toMatchObject({ excluded_by: 'where', unmet_conditions: [where[0], where[1]] })
  expect((await here(['explain', 'contacts', '35'])).stdout).toContain(
    'excluded from the source by t.phone::bigint < 5',
  )
  const inside = JSON.parse((await here(['explain', 'contacts', '25', '--json'])).stdout)
  expect(inside.row).toMatchObject({ excluded_by: null, unmet_conditions: [] })
})

test('a condition that fails on rows which another leaves out is named, and the plan goes on', async () => {
  await database.query("update crm.contacts set phone = 'none' where id = 1")
  const { stdout, code } = await here(['plan', '--json', '--budget', 'unlimited'])
  expect(code).toBe(0)
  expect(JSON.parse(stdout).sources).toMatchObject([
    { filtered_out: 30, conditions: null, conditions_error: expect.stringContaining('bigint') },
  ])
})
