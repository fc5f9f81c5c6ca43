import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { coerceValue, coerceFloat, coerceInteger, coerceNumeric } from '../../../src/sources/coerce/value.ts'
import type { Fit } from '../../../src/sources/catalogue.ts'

const fitted = (value: unknown, fit: Fit): unknown => {
  const fitting = coerceValue(value, fit)
  return fitting.ok ? fitting.value : fitting.reason
}
const text = (maxLength: number | null): Fit => ({ kind: 'text', maxLength })

describe('text', () => {
  test('counts characters as Postgres does', () => {
    expect(fitted('a\u{1F600}é', text(3))).toBe('a\u{1F600}é')
    expect(fitted('a\u{1F600}éx', text(3))).toBe('too_long')
  })
  test('accepts numbers and booleans, not arrays or objects', () => {
    expect([1.5, false, [1], {}, null].map((value) => fitted(value, text(null)))).toEqual([
      '1.5',
      'false',
      'not_a_text',
      'not_a_text',
      'not_a_text',
    ])
  })
})

describe('times', () => {
  test.each<[Fit['kind'], unknown, string]>([
    ['date', '2024-02-29', '2024-02-29'],
    ['date', '2023-02-29', 'not_a_date'],
    ['date', '2023-13-01', 'not_a_date'],
    ['date', '2026-11-21T10:00:00Z', '2026-11-21'],
    ['date', '21.11.2026', 'not_a_date'],
    ['date', 2026, 'not_a_date'],
    ['date', '0000-01-01', 'not_a_date'],
    ['timestamp', '2026-11-21T10:00:00+02:00', '2026-11-21T08:00:00'],
    ['timestamp', '2026-01-01 00:30+0100', '2025-12-31T23:30:00'],
    ['timestamp', '2026-11-21 10:00:00.123456789', '2026-11-21T10:00:00.123456'],
    ['timestamp', '2026-11-21', '2026-11-21T00:00:00'],
    ['timestamptz', '2026-11-21T10:00:00', '2026-11-21T10:00:00Z'],
    ['timestamptz', '2026-11-21T10:00:00.5-05', '2026-11-21T15:00:00.5Z'],
    ['timestamptz', '2026-11-21T24:00:00Z', 'not_a_timestamp'],
    ['timestamptz', '2026-11-21T10:60:00Z', 'not_a_timestamp'],
    ['timestamptz', '2026-11-21T10:00:00+17:00', 'not_a_timestamp'],
    ['timestamptz', 1763719200, 'not_a_timestamp'],
  ])('%s from %j', (kind, value, expected) => {
    expect(fitted(value, { kind } as Fit)).toBe(expected)
  })

  test('every instant is preserved', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('0001-01-02'), max: new Date('9999-12-30'), noInvalidDate: true }),
        (date) => {
          expect(fitted(date.toISOString(), { kind: 'timestamptz' })).toBe(date.toISOString())
        },
      ),
    )
  })
})

describe('other types', () => {
  test.each<[Fit, unknown, unknown]>([
    [{ kind: 'boolean' }, ' YES ', true],
    [{ kind: 'boolean' }, 0, false],
    [{ kind: 'boolean' }, 'maybe', 'not_a_boolean'],
    [{ kind: 'boolean' }, [true], 'not_a_boolean'],
    [{ kind: 'uuid' }, 'A0EEBC999C0B4EF8BB6D6BB9BD380A11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
    [{ kind: 'uuid' }, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1', 'not_a_uuid'],
    [{ kind: 'enum', labels: ['VP', 'C'] }, 'VP', 'VP'],
    [{ kind: 'enum', labels: ['VP', 'C'] }, 'vp', 'no_such_label'],
    [{ kind: 'array', element: text(3) }, ['a', null, 'bcd'], ['a', 'bcd']],
    [{ kind: 'array', element: text(3) }, ['a', 'bcde'], 'too_long'],
    [{ kind: 'array', element: text(3) }, 'a', ['a']],
    [{ kind: 'array', element: text(null) }, [['a']], 'not_a_text'],
    [{ kind: 'array', element: { kind: 'integer', bits: 16 } }, [1, 'x'], 'not_an_integer'],
    [{ kind: 'jsonb' }, { a: [1] }, { a: [1] }],
    [{ kind: 'other' }, '10.0.0.1', '10.0.0.1'],
    [{ kind: 'other' }, {}, 'not_a_text'],
  ])('%j from %j', (fit, value, expected) => {
    expect(fitted(value, fit)).toEqual(expected)
  })
})

const reason = (fitting: { ok: boolean; reason?: string; value?: unknown }): unknown =>
  fitting.ok ? fitting.value : fitting.reason

describe('integers', () => {
  test.each<[unknown, 16 | 32 | 64, unknown]>([
    [32767, 16, 32767],
    [32768, 16, 'out_of_range'],
    [-2147483648, 32, -2147483648],
    ['2147483648', 32, 'out_of_range'],
    ['9223372036854775807', 64, '9223372036854775807'],
    ['9223372036854775808', 64, 'out_of_range'],
    ['-9223372036854775808', 64, '-9223372036854775808'],
    [' 12 ', 32, 12],
    ['12.00', 32, 12],
    ['+1.2e1', 32, 12],
    [12.5, 32, 'not_an_integer'],
    ['51-200', 32, 'not_an_integer'],
    ['1,000', 32, 'not_an_integer'],
    ['', 32, 'not_an_integer'],
    ['.', 32, 'not_an_integer'],
    ['0x10', 32, 'not_an_integer'],
    ['Infinity', 32, 'not_an_integer'],
    [Number.NaN, 32, 'not_an_integer'],
    [true, 32, 'not_an_integer'],
    [['1'], 32, 'not_an_integer'],
    ['1e999', 32, 'out_of_range'],
    ['1e999999999', 32, 'not_an_integer'],
  ])('%j in %i bits', (value, bits, expected) => {
    expect(reason(coerceInteger(value, bits))).toBe(expected)
  })

  test('accepts the full range and nothing else', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 66n), max: 2n ** 66n }), (value) => {
        const fits = value >= -(2n ** 63n) && value < 2n ** 63n
        const fitting = coerceInteger(value.toString(), 64)
        expect(fitting.ok).toBe(fits)
        expect(!fitting.ok || BigInt(String(fitting.value)) === value).toBe(true)
      }),
    )
  })
})

describe('floating-point numbers', () => {
  test.each<[unknown, 32 | 64, unknown]>([
    ['0.1', 64, 0.1],
    [3.5e38, 32, 'out_of_range'],
    ['1e400', 64, 'out_of_range'],
    ['abc', 64, 'not_a_number'],
    ['NaN', 64, 'not_a_number'],
  ])('%j in %i bits', (value, bits, expected) => {
    expect(reason(coerceFloat(value, bits))).toBe(expected)
  })
})

describe('numeric(precision, scale)', () => {
  test.each<[unknown, number | null, number, unknown]>([
    ['9999.99', 6, 2, '9999.99'],
    [9999.994, 6, 2, 9999.994],
    ['9999.995', 6, 2, 'out_of_range'],
    ['-9999.995', 6, 2, 'out_of_range'],
    ['0.005', 2, 4, '0.005'],
    ['0.01', 2, 4, 'out_of_range'],
    ['12345', 3, -2, '12345'],
    ['99949', 3, -2, '99949'],
    ['99950', 3, -2, 'out_of_range'],
    ['1e50', null, 0, '1e50'],
    ['12,5', null, 0, 'not_a_number'],
  ])('%j in (%s, %s)', (value, precision, scale, expected) => {
    expect(reason(coerceNumeric(value, precision, scale))).toBe(expected)
  })

  test('agrees with integer arithmetic', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }),
        fc.integer({ min: 0, max: 6 }),
        fc.integer({ min: 1, max: 10 }),
        (digits, decimals, precision) => {
          const size = digits < 0n ? -digits : digits
          const text = `${digits < 0n ? '-' : ''}${size / 10n ** BigInt(decimals)}.${(size % 10n ** BigInt(decimals)).toString().padStart(decimals, '0')}`
          expect(coerceNumeric(text, precision, decimals).ok).toBe(size < 10n ** BigInt(precision))
        },
      ),
    )
  })
})
