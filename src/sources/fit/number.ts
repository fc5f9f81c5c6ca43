import { numberText } from '../../domain/json.ts'
import { fits, misfit, type Fitting } from './outcome.ts'

/** A decimal number as whole digits and the power of ten that they are multiplied by. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** More is no number that a record means, and would make gigabytes of digits. */
const mostDigits = 1_000

const decimalText = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?$/

/** Whole numbers of 16, 32 or 64 bits. A text of digits is a number too, and so is `12.0`; `12.5` is not. */
export function fitInteger(value: unknown, bits: 16 | 32 | 64): Fitting {
  const decimal = toDecimal(value)
  if (decimal === null) return misfit('not_a_integer')
  const whole = scaled(decimal, 0)
  if (!whole.exact) return misfit('not_a_integer')
  if (BigInt.asIntN(bits, whole.digits) !== whole.digits) return misfit('out_of_range')
  const number = Number(whole.digits)
  // As text, because JSON numbers beyond 2^53 are rounded on their way.
  return fits(Number.isSafeInteger(number) ? number : whole.digits.toString())
}

/** `real` and `double precision`. What is too large for them is refused; what is too small becomes 0. */
export function fitFloat(value: unknown, bits: 32 | 64): Fitting {
  if (toDecimal(value) === null) return misfit('not_a_number')
  const number = Number(numberText(value) ?? value)
  const held = bits === 32 ? Math.fround(number) : number
  return Number.isFinite(held) ? fits(number) : misfit('out_of_range')
}

/**
 * `numeric(precision, scale)`: rounded to the scale as Postgres rounds, half away from zero, and refused when more
 * digits stand before the point than there is room for.
 */
export function fitNumeric(value: unknown, precision: number | null, scale: number): Fitting {
  const decimal = toDecimal(value)
  if (decimal === null) return misfit('not_a_number')
  if (precision !== null) {
    const { digits } = scaled(decimal, scale)
    if ((digits < 0n ? -digits : digits) >= 10n ** BigInt(precision)) return misfit('out_of_range')
  }
  return fits(typeof value === 'number' ? value : (numberText(value) ?? String(value).trim()))
}

/** Whether the value is a number, or a text that is one. */
export const isNumeric = (value: unknown): boolean => toDecimal(value) !== null

function toDecimal(value: unknown): Decimal | null {
  const text = typeof value === 'string' || typeof value === 'bigint' ? String(value) : numberText(value)
  const match = text === null ? null : decimalText.exec(text.trim())
  if (!match) return null
  const [, sign = '', whole = '', fraction = '', power = '0'] = match
  if (whole === '' && fraction === '') return null
  const exponent = Number(power) - fraction.length
  if (whole.length + fraction.length > mostDigits || Math.abs(exponent) > mostDigits) return null
  const digits = BigInt(whole + fraction)
  return { digits: sign === '-' ? -digits : digits, exponent }
}

/** The number times ten to the power of `scale`, rounded to a whole one, half away from zero. */
function scaled({ digits, exponent }: Decimal, scale: number): { digits: bigint; exact: boolean } {
  const power = exponent + scale
  if (power >= 0) return { digits: digits * 10n ** BigInt(power), exact: true }
  const divisor = 10n ** BigInt(-power)
  const size = digits < 0n ? -digits : digits
  const rounded = (size * 2n + divisor) / (divisor * 2n)
  return { digits: digits < 0n ? -rounded : rounded, exact: size % divisor === 0n }
}
