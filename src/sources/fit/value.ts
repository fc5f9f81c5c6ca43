import { withPlainNumbers } from '../../domain/json.ts'
import type { Fit } from '../column-type.ts'
import { fitFloat, fitInteger, fitNumeric } from './number.ts'
import { fits, misfit, type Fitting } from './outcome.ts'
import { fitBits, fitText, toText } from './text.ts'
import { fitDate, fitTimestamp, fitTimestamptz } from './time.ts'

/** Makes a value ready for a column, or says why it can't be. */
export function fitValue(value: unknown, fit: Fit, tooLong: 'skip' | 'truncate'): Fitting {
  switch (fit.kind) {
    case 'text':
      return fitText(value, fit, tooLong)
    case 'bits':
      return fitBits(value, fit, tooLong)
    case 'integer':
      return fitInteger(value, fit.bits)
    case 'float':
      return fitFloat(value, fit.bits)
    case 'numeric':
      return fitNumeric(value, fit.precision, fit.scale)
    case 'boolean':
      return fitBoolean(value)
    case 'date':
      return fitDate(value)
    case 'timestamp':
      return fitTimestamp(value)
    case 'timestamptz':
      return fitTimestamptz(value)
    case 'uuid':
      return fitUuid(value)
    case 'enum':
      return fitLabel(value, fit.labels)
    case 'array':
      return fitArray(value, fit.element, tooLong)
    case 'json':
    case 'jsonb':
      return fits(value)
    case 'other':
      return fitText(value, { maxLength: null }, 'skip')
  }
}

const truths = new Map<string, boolean>([
  ...['true', 't', 'yes', 'y', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'f', 'no', 'n', 'off', '0'].map((word) => [word, false] as const),
])

/** The words are those that Postgres reads itself. */
function fitBoolean(value: unknown): Fitting {
  const text = toText(typeof value === 'object' ? withPlainNumbers(value) : value)
  const truth = truths.get(text?.trim().toLowerCase() ?? '')
  return truth === undefined ? misfit('not_a_boolean') : fits(truth)
}

const uuid = /^\{?([\da-f]{8})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{12})\}?$/i

function fitUuid(value: unknown): Fitting {
  const match = typeof value === 'string' ? uuid.exec(value.trim()) : null
  return match ? fits(match.slice(1).join('-').toLowerCase()) : misfit('not_a_uuid')
}

/** Labels are compared as they are: which of `VP` and `vp` was meant is for `map` to say. */
function fitLabel(value: unknown, labels: readonly string[]): Fitting {
  const text = toText(value)
  if (text === null) return misfit('not_a_text')
  return labels.includes(text) ? fits(text) : misfit('no_such_label')
}

/** A single value becomes an array of one; nulls are left out. One element that does not fit refuses the whole. */
function fitArray(value: unknown, element: Fit, tooLong: 'skip' | 'truncate'): Fitting {
  const fitted: unknown[] = []
  for (const item of Array.isArray(value) ? (value as unknown[]) : [value]) {
    if (item === null || item === undefined) continue
    const fitting = fitValue(item, element, tooLong)
    if (!fitting.ok) return fitting
    fitted.push(fitting.value)
  }
  return fitted.length > 0 ? fits(fitted) : misfit('absent')
}
