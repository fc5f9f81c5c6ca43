import { describe, expect, test } from 'vitest'
import type { Column, Table } from '../../../src/sources/catalogue.ts'
import type { ClassifiedSchema, ClassifiedTable } from '../../../src/init/classify.ts'
import { type SampledRow, listCandidateFields } from '../../../src/init/fields.ts'
import { relatedFlags } from '../../../src/init/related-flags.ts'

const tableOf = (
  name: string,
  sample: readonly SampledRow[],
  columns = Object.keys(sample[0] ?? {}),
): ClassifiedTable => {
  const fit = { kind: 'text' } as const
  const all = columns.map((one) => ({ name: one, canSelect: true, type: { name: 'text', fit } }) as Column)
  const table = {
    schema: 'public',
    name,
    sql: name,
    columns: all,
    primaryKey: ['id'],
    uniqueKeys: [],
  } as unknown as Table
  const fields = listCandidateFields(table, sample)
  const roles = {
    person: new Map(),
    company: new Map(),
    kinds: [],
    references: new Set<string>(),
  }
  return {
    table,
    sqlName: name,
    sample,
    sampled: sample.length,
    fields,
    ...roles,
  } as unknown as ClassifiedTable
}

/** What a table of contacts' keys and values says of them, beside a table of fields. */
function found(
  name: string,
  pairs: readonly (readonly [key: string, value: string])[],
  column = 'meta_key',
): string[] {
  const rows = pairs.flatMap(([key, value]) =>
    Array.from({ length: 3 }, () => ({ contact_id: '1', [column]: key, meta_value: value })),
  )
  const [contacts, side] = [tableOf('contacts', [], ['id']), tableOf(name, rows)]
  const fields = tableOf('custom_fields', [
    { id: '1', name: 'do not contact' },
    { id: '2', name: 'shoe size' },
  ])
  const relation = { targets: ['id'], type: null }
  const relations = [
    { ...relation, from: side, to: contacts, columns: ['contact_id'] },
    ...(column === 'custom_field_id' ? [{ ...relation, from: side, to: fields, columns: [column] }] : []),
  ]
  const schema: ClassifiedSchema = { tables: [contacts, side, fields], relations }
  return relatedFlags(schema, contacts, 'person').flatMap(({ keep, isSure }) => (isSure ? [keep] : []))
}

const without = (table: string, condition: string): string =>
  `not exists (select from ${table} e where e.contact_id = t.id and ${condition})`

describe('a key of a table of keys and values is read as a column', () => {
  test('a flag, and no row of it is no answer', () => {
    expect(
      found('contact_meta', [
        ['do_not_contact', 'Y'],
        ['do_not_contact', 'N'],
        ['shoe_size', '41'],
      ]),
    ).toEqual([without('contact_meta', "e.meta_key = 'do_not_contact' and e.meta_value = 'Y'")])
    expect(
      found('contact_meta', [
        ['gdpr_consent', 'yes'],
        ['gdpr_consent', 'no'],
      ]),
    ).toEqual([without('contact_meta', "e.meta_key = 'gdpr_consent' and e.meta_value = 'no'")])
  })

  test('a label', () => {
    expect(
      found('contact_meta', [
        ['contact_type', 'trade'],
        ['contact_type', 'private'],
      ]),
    ).toEqual([without('contact_meta', "e.meta_key = 'contact_type' and e.meta_value = 'private'")])
  })

  test('a day', () => {
    expect(
      found('contact_meta', [
        ['unsubscribed_at', '2026-01-02 03:04'],
        ['unsubscribed_at', ''],
      ]),
    ).toEqual([without('contact_meta', "e.meta_key = 'unsubscribed_at' and e.meta_value <> ''")])
  })

  test('a key that has its name in a table of fields', () => {
    expect(
      found(
        'contact_values',
        [
          ['1', 'true'],
          ['1', 'false'],
          ['2', '41'],
        ],
        'custom_field_id',
      ),
    ).toEqual([without('contact_values', "e.custom_field_id = '1' and e.meta_value = 'true'")])
  })

  test('what a row was once is none, and neither is a column of many texts', () => {
    expect(
      found('contact_history', [
        ['do_not_contact', 'Y'],
        ['do_not_contact', 'N'],
      ]),
    ).toEqual([])
  })
})
