import { expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/load.ts'
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

test('includes the columns of the inputs, however they are written', () => {
  expect(followed({ inputs: { email: 't.email' } })).toEqual(['email'])
  expect(followed({ inputs: { email: 'lower(T.EMAIL)' } })).toEqual(['email'])
  expect(
    followed({ inputs: { name: `concat_ws(' ', first_name, t."Last Name")`, company: `'deleted_at'` } }),
  ).toEqual(['first_name', 'Last Name'])
})

test('includes the columns of joins and where, but none of a joined table', () => {
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

test('excludes a column that Fillrate writes and only where reads', () => {
  expect(followed({ inputs: { email: 't.email' }, where: 't.enriched_at is null' })).toEqual(['email'])
})

test('includes all columns if an expression uses the whole row or a function of it', () => {
  expect(followed({ inputs: { email: 'address_of(t)' } })).toEqual(columns)
  expect(followed({ inputs: { email: 't.address' } })).toEqual(columns)
})

test('includes everything that a generated column may be computed from', () => {
  expect(followed({ inputs: { email: 't.email' } }, ['email'])).toEqual([
    'id',
    'first_name',
    'Last Name',
    'account_id',
    'deleted_at',
  ])
})
