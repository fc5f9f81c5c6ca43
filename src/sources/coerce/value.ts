import { toPlainNumbers, toNumberText } from '../../domain/json.ts'
import type { Fit } from '../catalogue.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'

/** A decimal number: digits times a power of ten. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** No real value has more digits; longer ones would fill gigabytes. */
const MAX_DIGITS = 1_000

const DECIMAL = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?$/

/** Integers of 16, 32 or 64 bits. A text of digits counts, and so does `12.0`; `12.5` does not. */
export function coerceInteger(value: unknown, bits: 16 | 32 | 64): Coercion {
  const decimal = toDecimal(value)
  if (decimal === null) return notCoerced('not_an_integer')
  const whole = toScale(decimal, 0)
  if (!whole.exact) return notCoerced('not_an_integer')
  if (BigInt.asIntN(bits, whole.digits) !== whole.digits) return notCoerced('out_of_range')
  const number = Number(whole.digits)
  // As text, because JSON numbers beyond 2^53 are rounded in transit.
  return coerced(Number.isSafeInteger(number) ? number : whole.digits.toString())
}

/** `real` and `double precision`. Too large is an error; too small becomes 0. */
export function coerceFloat(value: unknown, bits: 32 | 64): Coercion {
  if (toDecimal(value) === null) return notCoerced('not_a_number')
  const number = Number(toNumberText(value) ?? value)
  const held = bits === 32 ? Math.fround(number) : number
  return Number.isFinite(held) ? coerced(number) : notCoerced('out_of_range')
}

/**
 * `numeric(precision, scale)`: rounded to the scale as in Postgres, half away from zero; an error if more digits stand
 * before the point than fit.
 */
export function coerceNumeric(value: unknown, precision: number | null, scale: number): Coercion {
  const decimal = toDecimal(value)
  if (decimal === null) return notCoerced('not_a_number')
  if (precision !== null) {
    const { digits } = toScale(decimal, scale)
    if ((digits < 0n ? -digits : digits) >= 10n ** BigInt(precision)) return notCoerced('out_of_range')
  }
  return coerced(typeof value === 'number' ? value : (toNumberText(value) ?? String(value).trim()))
}

function toDecimal(value: unknown): Decimal | null {
  const text = typeof value === 'string' || typeof value === 'bigint' ? String(value) : toNumberText(value)
  const match = text === null ? null : DECIMAL.exec(text.trim())
  if (!match) return null
  const [, sign = '', whole = '', fraction = '', power = '0'] = match
  if (whole === '' && fraction === '') return null
  const exponent = Number(power) - fraction.length
  if (whole.length + fraction.length > MAX_DIGITS || Math.abs(exponent) > MAX_DIGITS) return null
  const digits = BigInt(whole + fraction)
  return { digits: sign === '-' ? -digits : digits, exponent }
}

/** The number times ten to the power of `scale`, rounded to an integer, half away from zero. */
function toScale({ digits, exponent }: Decimal, scale: number): { digits: bigint; exact: boolean } {
  const power = exponent + scale
  if (power >= 0) return { digits: digits * 10n ** BigInt(power), exact: true }
  const divisor = 10n ** BigInt(-power)
  const size = digits < 0n ? -digits : digits
  const rounded = (size * 2n + divisor) / (divisor * 2n)
  return { digits: digits < 0n ? -rounded : rounded, exact: size % divisor === 0n }
}

/** A value ready to be written, as JSON, or the reason why there is none. */
export type Coercion =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: SkipReason; readonly detail: string | null }

/** A successful coercion. */
export const coerced = (value: unknown): Coercion => ({ ok: true, value })
/** A failed coercion, with its reason. */
export const notCoerced = (reason: SkipReason, detail: string | null = null): Coercion => ({
  ok: false,
  reason,
  detail,
})

/** A scalar as text, a number as the service wrote it; null for arrays, objects and null. */
export function toText(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || typeof value === 'bigint' ? String(value) : toNumberText(value)
}

/** Fits a text to its column: the limit counts code points, as Postgres does. */
function coerceText(value: unknown, maxLength: number | null): Coercion {
  const text = toText(value)
  if (text === null) return notCoerced('not_a_text')
  return countCharacters(text, maxLength) > (maxLength ?? Infinity) ? notCoerced('too_long') : coerced(text)
}

/** Code points; of a text that fits whatever they are, its UTF-16 units, which are no fewer. */
const countCharacters = (text: string, limit: number | null): number =>
  limit === null || text.length <= limit ? text.length : [...text].length

const ISO_TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?)?$/

interface ParsedTime {
  readonly date: string
  /** `HH:MM:SS` and the fraction as written. Null: a date only. */
  readonly time: string | null
  /** Minutes east of UTC; null if the text has no zone. */
  readonly offset: number | null
}

/** A date, `2026-11-21`, or the date of a time as written. */
function coerceDate(value: unknown): Coercion {
  const moment = parseIsoTime(value)
  return moment === null ? notCoerced('not_a_date') : coerced(moment.date)
}

/** A timestamp without time zone, in UTC: converts other zones. */
function coerceTimestamp(value: unknown): Coercion {
  const utc = toUtc(parseIsoTime(value))
  return utc === null ? notCoerced('not_a_timestamp') : coerced(utc)
}

/** A timestamp with time zone. Without a zone it is UTC: the service documents its timestamps so. */
function coerceTimestamptz(value: unknown): Coercion {
  const utc = toUtc(parseIsoTime(value))
  return utc === null ? notCoerced('not_a_timestamp') : coerced(`${utc}Z`)
}

/** Rejects times of day and dates that do not exist, and numbers: they could be seconds or years. */
function parseIsoTime(value: unknown): ParsedTime | null {
  const match = typeof value === 'string' ? ISO_TIME.exec(value.trim()) : null
  if (!match) return null
  const [, year = '', month = '', day = '', hour, minute = '00', second = '00', fraction, zone] = match
  const at = new Date(Date.UTC(2000, Number(month) - 1, 1))
  at.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  if (Number(year) === 0 || at.getUTCMonth() !== Number(month) - 1 || at.getUTCDate() !== Number(day))
    return null
  const date = `${year}-${month}-${day}`
  if (hour === undefined) return { date, time: null, offset: null }
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null
  const time = `${hour}:${minute}:${second}${fraction === undefined ? '' : `.${fraction.slice(0, 6)}`}`
  const offset = zone === undefined ? null : offsetMinutes(zone)
  return offset !== null && Math.abs(offset) > 15 * 60 ? null : { date, time, offset }
}

function offsetMinutes(zone: string): number {
  if (/^z$/i.test(zone)) return 0
  const [hours = '0', minutes = '0'] = zone.slice(1).match(/\d{2}/g) ?? []
  return (Number(hours) * 60 + Number(minutes)) * (zone.startsWith('-') ? -1 : 1)
}

function toUtc(moment: ParsedTime | null): string | null {
  if (moment === null) return null
  const time = moment.time ?? '00:00:00'
  if (!moment.offset) return `${moment.date}T${time}`
  const at = new Date(`${moment.date}T${time.slice(0, 8)}Z`)
  at.setUTCMinutes(at.getUTCMinutes() - moment.offset)
  const text = at.toISOString()
  return text.length === 24 ? text.slice(0, 19) + time.slice(8) : null
}

/** Coerces a value to what a column holds, or returns why it cannot be. */
export function coerceValue(value: unknown, fit: Fit): Coercion {
  switch (fit.kind) {
    case 'text':
      return coerceText(value, fit.maxLength)
    case 'integer':
      return coerceInteger(value, fit.bits)
    case 'float':
      return coerceFloat(value, fit.bits)
    case 'numeric':
      return coerceNumeric(value, fit.precision, fit.scale)
    case 'boolean':
      return coerceBoolean(value)
    case 'date':
      return coerceDate(value)
    case 'timestamp':
      return coerceTimestamp(value)
    case 'timestamptz':
      return coerceTimestamptz(value)
    case 'uuid':
      return coerceUuid(value)
    case 'enum':
      return coerceLabel(value, fit.labels)
    case 'array':
      return coerceArray(value, fit.element)
    case 'json':
    case 'jsonb':
      return coerced(value)
    case 'other':
      return coerceText(value, null)
  }
}

const BOOLEANS = new Map<string, boolean>([
  ...['true', 't', 'yes', 'y', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'f', 'no', 'n', 'off', '0'].map((word) => [word, false] as const),
])

/** The words that Postgres accepts. */
function coerceBoolean(value: unknown): Coercion {
  const text = toText(typeof value === 'object' ? toPlainNumbers(value) : value)
  const truth = BOOLEANS.get(text?.trim().toLowerCase() ?? '')
  return truth === undefined ? notCoerced('not_a_boolean') : coerced(truth)
}

const UUID = /^\{?([\da-f]{8})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{12})\}?$/i

function coerceUuid(value: unknown): Coercion {
  const match = typeof value === 'string' ? UUID.exec(value.trim()) : null
  return match ? coerced(match.slice(1).join('-').toLowerCase()) : notCoerced('not_a_uuid')
}

/** Labels are compared exactly: `VP` or `vp` is a decision for `map`. */
function coerceLabel(value: unknown, labels: readonly string[]): Coercion {
  const text = toText(value)
  if (text === null) return notCoerced('not_a_text')
  return labels.includes(text) ? coerced(text) : notCoerced('no_such_label')
}

/** A single value becomes an array of one; nulls are dropped. One element that does not fit rejects the whole array. */
function coerceArray(value: unknown, element: Fit): Coercion {
  const fitted: unknown[] = []
  for (const item of Array.isArray(value) ? (value as unknown[]) : [value]) {
    if (item === null || item === undefined) continue
    const fitting = coerceValue(item, element)
    if (!fitting.ok) return fitting
    fitted.push(fitting.value)
  }
  return fitted.length > 0 ? coerced(fitted) : notCoerced('absent')
}
