import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isRowError, formatTableName, joinName, parseTableName } from '../../../src/sources/db.ts'
import { splitName } from '../../../src/util/text.ts'

describe('names', () => {
  test.each<[string, string | null, string]>([
    ['contacts', null, 'contacts'],
    ['Crm.Contacts', 'crm', 'contacts'],
    ['crm."Contacts"', 'crm', 'Contacts'],
    ['"a.b" . "c""d"', 'a.b', 'c"d'],
  ])('%s is a table', (name, schema, table) => {
    expect(parseTableName(name)).toEqual({ schema, table })
  })

  test('of tables: parse what formatTableName writes', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (schema, table) => {
        expect(parseTableName(formatTableName(schema, table))).toEqual({ schema, table })
      }),
    )
  })

  test('of cells: split what joinName joins', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }), (parts) => {
        fc.pre(parts.every((part) => part.trim() === part && !part.includes('"')))
        expect(splitName(joinName(parts))).toEqual(parts)
      }),
    )
    expect(splitName('attributes."a.b".c')).toEqual(['attributes', 'a.b', 'c'])
  })
})

describe('errors of the database', () => {
  const error = (code: string, message = '') => Object.assign(new Error(message), { code })
  test.each([
    '23505',
    '22001',
    'P0001',
    'P0004',
    'ZX001',
    '21000',
    '54000',
    '42501',
    '42703',
    'XX000',
    '08006',
    '57P01',
    '55000',
    '53400',
  ])('%s may concern a row', (code) => {
    expect(isRowError(error(code))).toBe(true)
  })
  test.each(['40001', '40P01', '53100', '53300', '55P03', '57014', 'ECONNRESET'])(
    '%s never concerns a row',
    (code) => {
      expect(isRowError(error(code))).toBe(false)
    },
  )
})
