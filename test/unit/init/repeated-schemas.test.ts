import { expect, test } from 'vitest'
import type { AcceptedSource } from '../../../src/init/verify.ts'
import { renderConfig } from '../../../src/init/config-text.ts'
import { groupRepeated } from '../../../src/init/repeated-schemas.ts'

const contacts = (schema: string, columns: readonly string[] = ['title']): AcceptedSource => ({
  coverage: null,
  isReviewed: true,
  source: {
    name: `${schema}_contacts`,
    kind: 'person',
    table: `${schema}.contacts`,
    rows: 100,
    joins: `left join ${schema}.accounts a on a.id = t.account_id`,
    key: null,
    where: null,
    changedAt: null,
    freshness: null,
    touch: null,
    inputs: [{ input: 'email', sql: 't.email' }],
    outputs: columns.map((column) => ({ column, field: 'title', type: 'text' })),
    skippedColumns: [],
    questions: [],
    notes: [],
    sample: { rows: 0, identifiedBy: {} },
  },
})

test('what schemas share is a function of the schema; what one of them lacks is written as it is', () => {
  const { repeated, others } = groupRepeated([
    contacts('t_1'),
    contacts('t_2'),
    contacts('t_3', ['position']),
  ])
  expect(repeated.map(({ name, schemas }) => ({ name, schemas }))).toEqual([
    { name: 'contactsOf', schemas: ['t_1', 't_2'] },
  ])
  expect(others.map(({ source }) => source.name)).toEqual(['t_3_contacts'])
})

test('one schema is no repetition', () => {
  expect(groupRepeated([contacts('t_1')]).repeated).toEqual([])
})

test('the file calls the function for each schema', () => {
  const text = renderConfig([contacts('t_1'), contacts('t_2')])
  expect(text).toContain("const contactsOf = (schema: string): ConfigInput['sources'] => ({")
  expect(text).toContain('  [`${schema}_contacts`]: {')
  expect(text).toContain('    joins: `left join ${schema}.accounts a on a.id = t.account_id`,')
  expect(text).toContain("    ...contactsOf('t_1'),\n    ...contactsOf('t_2'),")
})
