import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { coerceFloat, coerceInteger, coerceNumeric } from '../../../src/sources/coerce/value.ts'

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
