import { describe, expect, test } from 'vitest'
import type { Column, Table } from '../../../src/sources/catalogue.ts'
import type { Fit } from '../../../src/sources/column-type.ts'
import { listCandidateFields } from '../../../src/init/fields.ts'
import { readFlags } from '../../../src/init/flags.ts'

/** The conditions of a table of one column, each of whose values a tenth of the rows has; the rest has the first. */
function found(name: string, kind: 'json' | 'jsonb', values: readonly unknown[]): string[] {
  const type = { name: kind, fit: { kind } as Fit }
  const column = { name, type, notNull: false, canSelect: true } as Column
  const rows = Array.from({ length: 100 }, (_, n) => ({ [name]: values[n % 10] ?? values[0] }))
  const fields = listCandidateFields({ columns: [column] } as unknown as Table, rows)
  return readFlags({ fields, sampled: 100 }, 't', 'person').map(({ keep }) => keep)
}

/** The condition against one label of a list. */
const without = (sql: string, path: string, label: string): string =>
  `(array(select jsonb_path_query(${sql}, '${path}') #>> '{}') && array[${label}]::text[]) is not true`

describe('tags inside json leave rows out as a label does', () => {
  test('texts', () => {
    expect(found('tags', 'jsonb', [[], ['customer', 'spam']])).toEqual([without('t.tags', '$[*]', "'spam'")])
  })

  test('of one meaning together, and json as jsonb', () => {
    expect(found('tags', 'json', [[], ['spam'], ['do not contact'], ["don't contact"]])).toEqual([
      without('t.tags::jsonb', '$[*]', "'do not contact', 'don''t contact'"),
      without('t.tags::jsonb', '$[*]', "'spam'"),
    ])
  })

  test.each([
    ['tags', [[], [{ id: 3, name: 'Test' }]], '$[*]."name"'],
    ['tags', [{ tags: [] }, { tags: [{ name: 'Test' }] }], '$."tags"[*]."name"'],
    ['custom', [{}, { labels: ['Test'] }], '$."labels"[*]'],
  ])('in objects: %s %j', (name, values, path) => {
    expect(found(name, 'jsonb', values)).toEqual([without(`t.${name}`, path, "'Test'")])
  })

  test('not what a list of something else is called, and not the keys of labels', () => {
    expect(found('emails', 'jsonb', [[], [{ value: 'a@b.io', label: 'Test' }]])).toEqual([])
    expect(found('tags', 'jsonb', [{ data: [] }, { data: [{ id: '7' }] }])).toEqual([])
  })
})

describe('a key inside json is read as a column of its type', () => {
  test.each([
    ['unsubscribed_at', '2026-01-02T03:04:05Z'],
    ['unsubscribed_at', 1_724_936_400],
    ['merged_into_id', 'd343a90c1dc6f7d3e609608c'],
  ])('%s: %s', (key, value) => {
    expect(found('custom', 'jsonb', [{}, { [key]: value }])).toEqual([`t.custom ->> '${key}' is null`])
  })
})
