import { toPlainNumbers } from '../../domain/json.ts'
import type { Fit } from '../column-type.ts'
import {
  coerceBits,
  coerced,
  coerceDate,
  coerceFloat,
  coerceInteger,
  coerceNumeric,
  coerceText,
  coerceTimestamp,
  coerceTimestamptz,
  type Coercion,
  notCoerced,
  toText,
} from './scalars.ts'

/** Coerces a value to what a column holds, or returns why it cannot be. */
export function coerceValue(value: unknown, fit: Fit): Coercion {
  switch (fit.kind) {
    case 'text':
      return coerceText(value, fit)
    case 'bits':
      return coerceBits(value, fit)
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
      return coerceText(value, { maxLength: null })
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
