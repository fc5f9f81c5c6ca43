import { describe, expect, test } from 'vitest'
import type { Column, Table } from '../../../src/sources/catalogue.ts'
import type { Fit } from '../../../src/sources/column-type.ts'
import { listCandidateFields } from '../../../src/init/fields.ts'
import { readFlags } from '../../../src/init/flags.ts'

/** The conditions of a table of one column, each of whose values a tenth of the rows has; the rest has the first. */
function found(name: string, kind: 'json' | 'jsonb' | 'text', values: readonly unknown[]): string[] {
  const type = { name: kind, fit: { kind } as Fit }
  const column = { name, type, notNull: false, canSelect: true } as Column
  const rows = Array.from({ length: 100 }, (_, n) => ({ [name]: values[n % 10] ?? values[0] }))
  const fields = listCandidateFields({ columns: [column] } as unknown as Table, rows)
  return readFlags({ fields, checkLabels: {}, sampled: 100 }, 't', 'person').map(({ keep }) => keep)
}

describe('tags inside json leave rows out as a label does', () => {
  test('texts', () => {
    expect(found('tags', 'jsonb', [[], ['customer', 'spam']])).toEqual([`(t.tags @> '["spam"]') is not true`])
  })

  test('of one meaning together, and json as jsonb', () => {
    expect(found('tags', 'json', [[], ['spam'], ['do not contact'], ["don't contact"]])).toEqual([
      `(t.tags::jsonb @> any (array['["do not contact"]', '["don''t contact"]']::jsonb[])) is not true`,
      `(t.tags::jsonb @> '["spam"]') is not true`,
    ])
  })

  test.each([
    ['tags', [[], [{ id: 3, name: 'Test' }]], `(t.tags @> '[{"name":"Test"}]') is not true`],
    [
      'tags',
      [{ tags: [] }, { tags: [{ name: 'Test' }] }],
      `(t.tags @> '{"tags":[{"name":"Test"}]}') is not true`,
    ],
    ['custom', [{}, { labels: ['Test'] }], `(t.custom @> '{"labels":["Test"]}') is not true`],
  ])('in objects: %s %j', (name, values, condition) => {
    expect(found(name, 'jsonb', values)).toEqual([condition])
  })

  test('not what a list of something else is called, and not the keys of labels', () => {
    expect(found('emails', 'jsonb', [[], [{ value: 'a@b.io', label: 'Test' }]])).toEqual([])
    expect(found('tags', 'jsonb', [{ data: [] }, { data: [{ id: '7' }] }])).toEqual([])
  })
})

describe('tags with signs between them', () => {
  test('each of them, whatever is beside it', () => {
    expect(found('tags', 'text', ['new', 'new, spam', 'spam;open'])).toEqual([
      `(regexp_split_to_array(btrim(t.tags), ' *[,;] *') && array['spam']::text[]) is not true`,
    ])
  })

  test('a text that may have a comma is none', () => {
    expect(found('motto', 'text', ['new', 'new, spam', 'spam;open']).join()).not.toContain('array')
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
