import { expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Column } from '../../../src/sources/catalogue.ts'
import { listFollowedColumns } from '../../../src/sources/triggers/columns.ts'

const column = (name: string, isGenerated = false) => ({ name, isGenerated }) as Column
const columns = ['id', 'email', 'first_name', 'Last Name', 'account_id', 'deleted_at', 'title', 'enriched_at']

function followed(
  of: { inputs: object; joins?: string; where?: string },
  generated: readonly string[] = [],
): string[] {
  const contacts = { kind: 'person', table: 'people', outputs: { title: 'title' }, ...of }
  const mapping = parseConfig({ sources: { contacts } }, null).sources['contacts']
  if (!mapping) throw new Error('no mapping')
  const source = {
    mapping,
    table: { columns: columns.map((name) => column(name, generated.includes(name))) },
    outputs: [{ attribute: 'title' }],
    touches: [{ attribute: 'enriched_at' }],
  }
  return listFollowedColumns(source as unknown as Parameters<typeof listFollowedColumns>[0]).map(
    (one) => one.name,
  )
}

test('those that the inputs name, in whatever way', () => {
  expect(followed({ inputs: { email: 't.email' } })).toEqual(['email'])
  expect(followed({ inputs: { email: 'lower(T.EMAIL)' } })).toEqual(['email'])
  expect(
    followed({ inputs: { name: `concat_ws(' ', first_name, t."Last Name")`, company: `'deleted_at'` } }),
  ).toEqual(['first_name', 'Last Name'])
})

test('those that joins and where name; of a joined table none', () => {
  const joins = 'left join accounts a on a.id = t.account_id'
  expect(followed({ inputs: { name: 't.first_name', company: 'a.title' }, joins })).toEqual([
    'first_name',
    'account_id',
  ])
  expect(followed({ inputs: { email: 't.email' }, where: 't.deleted_at is null' })).toEqual([
    'email',
    'deleted_at',
  ])
})

test('what Fillrate writes itself is not looked at for where alone', () => {
  expect(followed({ inputs: { email: 't.email' }, where: 't.enriched_at is null' })).toEqual(['email'])
})

test('all of them where the row is named as a whole, or a function of it', () => {
  expect(followed({ inputs: { email: 'address_of(t)' } })).toEqual(columns)
  expect(followed({ inputs: { email: 't.address' } })).toEqual(columns)
})

test('where a column is generated, all that it may be made of', () => {
  expect(followed({ inputs: { email: 't.email' } }, ['email'])).toEqual([
    'id',
    'first_name',
    'Last Name',
    'account_id',
    'deleted_at',
  ])
})
