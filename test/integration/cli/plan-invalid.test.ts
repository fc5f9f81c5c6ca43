import { expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// `plan --list invalid`: which rows have no usable input.

const { contacts } = crmConfig.sources
const { database, here } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 1_500)
    // More than a page of rows, so that the list spans several.
    await pool.query("update crm.contacts set email = 'nobody at ' || id where id > 1200")
    await pool.query('update crm.contacts set email = null where id <= 3')
    await pool.query(
      "update crm.contacts set email = 'person' || id || '@work.example' where id between 4 and 1200",
    )
  },
  config: {
    ...crmConfig,
    budget: 100,
    sources: { contacts: { ...contacts, inputs: { email: contacts.inputs.email } } },
  },
})
const invalidKeys = await database.scalar<string[]>(
  'select json_agg(id::text order by id) from crm.contacts where id <= 3 or id > 1200',
)

test('lists the first rows with their keys and reasons, as many as the plan counts, and no value', async () => {
  const { stdout, code } = await here(['plan', '--list', 'invalid', '--json'])
  expect(code).toBe(0)
  const plan = JSON.parse(stdout)
  const counted = Object.values<number>(plan.sources[0].invalid_input).reduce((sum, one) => sum + one, 0)
  expect(counted).toBe(invalidKeys.length)
  expect(plan.invalid).toHaveLength(100)
  expect(plan.invalid.slice(0, 3)).toEqual(
    ['1', '2', '3'].map((key) => ({ source: 'contacts', key, reason: 'no input' })),
  )
  expect(plan.invalid[3]).toMatchObject({ key: '1201', reason: expect.stringMatching(/^email: /) })
  const text = await here(['plan', '--list', 'invalid'])
  expect(text.stdout).toMatch(/− invalid input +3 +no input\n +1, 2, 3\n/)
  expect(text.stdout).toMatch(/ email: [^\n]*\n +1201, 1202, 1203/)
  expect(stdout + text.stdout).not.toContain('nobody at')
  expect(JSON.parse((await here(['plan', '--json'])).stdout)).not.toHaveProperty('invalid')
})

test('without such rows the funnel has none', async () => {
  const none = await here(['plan', '--list', 'invalid', '--where', 't.id between 50 and 60'])
  expect(none.stdout).not.toContain('invalid input')
  expect((await here(['plan', '--list', 'fresh'])).code).toBe(2)
})
