import { firstOf, isObject, numberText } from './json.ts'
import type { JsonObject } from './json.ts'
import { verdictOf } from './verdict.ts'

/** What a piece of JSON says about a person or a company. */
export type Reading =
  /** `confidence` is null for a company alone, which has none. */
  | { outcome: 'found'; record: JsonObject; confidence: number | null }
  | { outcome: 'not_found' }
  /** Neither a record nor a miss: a fault of the service. The reason quotes nothing of the answer. */
  | { outcome: 'unreadable'; reason: string }

type Kind = {
  what: 'person' | 'company'
  /** Under which keys a record may be wrapped. The interface does not show any; these are the usual ones. */
  wrappers: readonly string[]
  /** Fields that only a record has. */
  telling: readonly string[]
  /** Fields that a record has, and an error message or an echo of the question may have as well. */
  naming: readonly string[]
}

const person: Kind = {
  what: 'person',
  wrappers: ['data', 'person', 'result', 'record', 'results'],
  telling: ['title', 'seniority', 'department', 'phone', 'linkedin', 'company', 'last_updated'],
  naming: ['id', 'name', 'email'],
}

const company: Kind = {
  what: 'company',
  wrappers: ['data', 'company', 'result', 'record', 'results'],
  telling: [
    'legal_name',
    'industry',
    'sub_industry',
    'employee_count',
    'employee_range',
    'revenue',
    'revenue_range',
    'founded_year',
    'location',
    'technologies',
    'social',
  ],
  naming: ['id', 'name', 'domain'],
}

/** A record can lie in a wrapper in a wrapper (`data.person`); deeper than this none is looked for. */
const wrappedAtMost = 3

/**
 * Reads a person record, bare or wrapped (`data`, `person`, `result`, …; an array of them gives the first
 * that was found). A record always has a confidence; one that is null, empty or without confidence is not
 * found. What reports an error (`success: false`, `error`, a status of 400 and above) or is no record at all
 * is unreadable, and never not found, because an outage must not be remembered as a miss. The record comes
 * back as it is, with fields unknown here.
 */
export const readPerson = (value: unknown): Reading => read(value, person, null, 0)

/** Reads a company record in the same way; it is found when it tells anything, since it has no confidence. */
export const readCompany = (value: unknown): Reading => read(value, company, null, 0)

/**
 * A match confidence on the scale of 0 to 1, also from a numeric string. A number above 1 and up to 100 is
 * taken for a percentage. Null when there is none or none can be made of it.
 */
export function readConfidence(value: unknown): number | null {
  const text = typeof value === 'string' && value.trim() !== '' ? value : numberText(value)
  const number = text === null ? null : Number(text)
  if (typeof number !== 'number' || !(number >= 0 && number <= 100)) return null
  return number > 1 ? number / 100 : number
}

function read(value: unknown, kind: Kind, outer: unknown, depth: number): Reading {
  if (isEmpty(value)) {
    // Nothing at all, in no wrapper, is what a broken service answers; a wrapper around nothing is a miss.
    return depth > 0 ? { outcome: 'not_found' } : { outcome: 'unreadable', reason: 'an empty answer' }
  }
  if (Array.isArray(value)) return readFirst(value, kind, outer, depth)
  if (!isObject(value)) {
    return { outcome: 'unreadable', reason: `a ${typeof value} where a ${kind.what} record was expected` }
  }
  return readObject(value, kind, outer, depth)
}

function readObject(value: JsonObject, kind: Kind, outer: unknown, depth: number): Reading {
  const verdict = verdictOf(value)
  if (verdict?.strength === 'flag') return verdict.reading

  const confidence = firstOf(value, ['confidence'])
  const described = describes(value, kind)
  const inner = depth < wrappedAtMost ? wrapped(value, kind) : undefined
  if (inner !== undefined && inner !== null) {
    const reading = read(inner, kind, confidence ?? outer, depth + 1)
    if (reading.outcome === 'found') return reading
    if (!described) return verdict?.reading ?? reading
  }
  if (confidence !== undefined && (described || inner !== null)) return found(value, kind, confidence)
  if (verdict?.strength === 'error') return verdict.reading
  if (described) {
    if (kind.what === 'company') return found(value, kind, undefined)
    return outer === undefined || outer === null ? { outcome: 'not_found' } : found(value, kind, outer)
  }
  if (verdict !== null) return verdict.reading
  if (inner !== undefined || depth > 0 || onlyNulls(value, kind)) return { outcome: 'not_found' }
  return { outcome: 'unreadable', reason: `an object that is no ${kind.what} record` }
}

/**
 * A person's confidence that can't be read (`"low"`, -0.3, 250) is none: taken for unknown, no bound would be held
 * against it, and the record would be written at whatever `minConfidence`.
 */
function found(record: JsonObject, kind: Kind, confidence: unknown): Reading {
  const read = readConfidence(confidence)
  return { outcome: 'found', record, confidence: kind.what === 'person' ? (read ?? 0) : read }
}

function readFirst(values: readonly unknown[], kind: Kind, outer: unknown, depth: number): Reading {
  let first: Reading | null = null
  // A lookup has one answer; more than a few are not read through.
  for (const value of values.slice(0, 10)) {
    const reading = read(value, kind, outer, depth + 1)
    if (reading.outcome === 'found') return reading
    first ??= reading
  }
  return first ?? { outcome: 'not_found' }
}

/** What the first wrapper that holds an object or a list holds; null when there are only empty ones. */
function wrapped(value: JsonObject, kind: Kind): unknown {
  let inner: unknown
  for (const field of kind.wrappers) {
    if (!Object.hasOwn(value, field)) continue
    const candidate = value[field]
    if ((isObject(candidate) || Array.isArray(candidate)) && !isEmpty(candidate)) return candidate
    if (isEmpty(candidate)) inner = null
  }
  return inner
}

/** Whether the object has a field of a record. Beside a message, a name or an id proves nothing. */
function describes(value: JsonObject, kind: Kind): boolean {
  if (firstOf(value, kind.telling) !== undefined) return true
  return typeof value['message'] !== 'string' && firstOf(value, kind.naming) !== undefined
}

const onlyNulls = (value: JsonObject, kind: Kind): boolean =>
  [...kind.telling, ...kind.naming].some((field) => Object.hasOwn(value, field) && isEmpty(value[field]))

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '' || value === false) return true
  if (Array.isArray(value)) return value.length === 0
  return typeof value === 'object' && Object.keys(value).length === 0
}
