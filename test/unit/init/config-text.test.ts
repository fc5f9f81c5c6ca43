import { expect, test } from 'vitest'
import { renderConfig } from '../../../src/init/config-text.ts'
import type { ProposedSource } from '../../../src/init/proposal.ts'

const SOURCE: ProposedSource = {
  name: 'contacts',
  kind: 'person',
  table: 'contacts',
  key: ['id'],
  inputs: [{ input: 'email', sql: 't.email', usable: 1 }],
  outputs: [{ column: 'title', field: 'title', filled: 0.5, map: null }],
  conditions: [],
  counted: { rows: 40, of: 'table' },
  grants: [],
}

const render = (changed: Partial<ProposedSource>): string =>
  renderConfig({ tables: 1, sources: [{ ...SOURCE, ...changed }], left: [] })

test('names and labels with quotes, backslashes and line ends are literals of one line', () => {
  const text = render({
    table: `"It's"`,
    outputs: [
      {
        column: 'a.b',
        field: 'seniority',

        filled: 0,
        map: { "d'or": "d'or", __proto__x: 'x\\y' },
      },
    ],
    conditions: [{ keep: `t."a" is distinct from 'x\ny'`, leaves: 3, state: 'offered' }],
  })
  expect(text).toContain(String.raw`table: "\"It's\"",`)
  expect(text).toContain(`'a.b': {`)
  expect(text).toContain(String.raw`"d'or": "d'or",`)
  expect(text).toContain(String.raw`// "t.\"a\" is distinct from 'x\ny'", // leaves out 3`)
})

test('a name from the database cannot leave its comment', () => {
  const text = renderConfig({
    tables: 1,
    sources: [{ ...SOURCE, grants: ['GRANT\n} evil('] }],
    left: [{ table: '"a\n*/ evil("', reason: 'r', grants: ['GRANT SELECT ON "a\nevil(" TO r;'] }],
  })
  for (const line of text.split('\n').filter((one) => one.includes('evil('))) expect(line).toMatch(/^ *\/\//)
})

test('says so where rows were sampled, or could not be counted', () => {
  const conditions = [{ keep: 't.a is null', leaves: 1, state: 'active' }] as const
  expect(render({ conditions, counted: { rows: 20_000, of: 'sample' } })).toContain(
    '// Of 20,000 sampled rows:',
  )
  expect(render({ counted: null })).toContain('Counting took too long')
})
