import { firstPresent, isObject, toNumberText } from './json.ts'
import type { JsonObject } from './json.ts'
import { readInBandStatus } from './in-band-status.ts'
import type { RecordPlace, ServiceReading } from './service/adapter.ts'

/**
 * What a JSON value contains about a person or a company. Unreadable is neither a record nor a miss, but a fault of the service; its
 * reason quotes nothing of the response.
 */
type RecordReading = Extract<ServiceReading, { outcome: 'found' | 'not_found' | 'unreadable' }>

/** How a record of one kind is recognised. */
type RecordShape = {
  kind: 'person' | 'company'
  /** Keys that may wrap a record. */
  wrappers: readonly string[]
  /** Fields that occur only in a record. */
  distinctiveFields: readonly string[]
  /** Fields of a record that may also occur in an error message or an echo of the request. */
  ambiguousFields: readonly string[]
  /** The field of the confidence. Null: the service sends none, and a person is found with a confidence of 1. */
  confidence: string | null
  /** The greatest confidence. Null: 1, and what is above is a percentage. */
  confidenceMax: number | null
}

const COMMON_WRAPPERS = ['result', 'record', 'results']

/**
 * How records with these fields are recognised. A field whose first part is an identifier or a name is no evidence.
 * @param fields paths: `title`, `company.name`
 */
export function toRecordShape(
  kind: 'person' | 'company',
  fields: readonly string[],
  { wrappers, confidence = 'confidence', confidenceMax }: RecordPlace = {},
): RecordShape {
  const ambiguousFields = kind === 'person' ? ['id', 'name', 'email'] : ['id', 'name', 'domain']
  const first = [...new Set(fields.map((field) => field.split('.')[0] ?? field))]
  return {
    kind,
    wrappers: wrappers ?? ['data', kind, ...COMMON_WRAPPERS],
    distinctiveFields: first.filter((field) => !ambiguousFields.includes(field) && field !== confidence),
    ambiguousFields,
    confidence,
    confidenceMax: confidenceMax ?? null,
  }
}

/** Wrappers may be nested (`data.person`); this limits the search. */
const MAX_WRAPPER_DEPTH = 3

export type RecordReader = (value: unknown) => RecordReading

/**
 * Creates a reader of records, bare or wrapped (`data`, `person`, `result`, …; of an array, the first found); a
 * record is returned unchanged. A person's record has a confidence, and without one, null or empty, is not found;
 * any field makes a company found. An error report (`success: false`, `error`, a status of 400 and above) or a
 * value that is no record is unreadable and never not found: an outage must not be stored as a miss.
 */
export const createRecordReader =
  (shape: RecordShape): RecordReader =>
  (value) =>
    readValue(value, shape, null, 0)

/**
 * Reads a match confidence, 0 to 1, also from a numeric string. A number above 1 and up to 100 is a percentage. Null if
 * missing or unreadable.
 */
export function readConfidence(value: unknown): number | null {
  const number = readNumber(value)
  if (number === null || !(number >= 0 && number <= 100)) return null
  return number > 1 ? number / 100 : number
}

/** A likelihood of 6 of 10 is 0.6. */
function readScaledConfidence(value: unknown, max: number): number | null {
  const number = readNumber(value)
  return number !== null && number >= 0 && number <= max ? number / max : null
}

function readNumber(value: unknown): number | null {
  if (typeof value === 'number') return value
  const text = typeof value === 'string' && value.trim() !== '' ? value : toNumberText(value)
  return text === null ? null : Number(text)
}

function readValue(value: unknown, kind: RecordShape, outer: unknown, depth: number): RecordReading {
  if (isEmpty(value)) {
    // An empty body comes from a broken service; an empty wrapper is a miss.
    return depth > 0 ? { outcome: 'not_found' } : { outcome: 'unreadable', reason: 'an empty response' }
  }
  if (Array.isArray(value)) return readFirstFound(value, kind, outer, depth)
  if (!isObject(value)) {
    // A number that JavaScript would round is an object.
    return {
      outcome: 'unreadable',
      reason: `a ${typeof value === 'object' ? 'number' : typeof value} instead of a ${kind.kind} record`,
    }
  }
  return readObject(value, kind, outer, depth)
}

function readObject(value: JsonObject, kind: RecordShape, outer: unknown, depth: number): RecordReading {
  const status = readInBandStatus(value)
  if (status?.strength === 'flag') return status.reading

  const confidence = kind.confidence === null ? undefined : firstPresent(value, [kind.confidence])
  const described = hasRecordFields(value, kind)
  const inner = depth < MAX_WRAPPER_DEPTH ? findWrapped(value, kind) : undefined
  if (inner !== undefined && inner !== null) {
    const reading = readValue(inner, kind, confidence ?? outer, depth + 1)
    if (reading.outcome === 'found') return reading
    if (!described) return status?.reading ?? reading
  }
  // What echoes the request, with a confidence of 0 at most, is no record beside a code, an error or a state.
  const isEcho =
    firstPresent(value, kind.distinctiveFields) === undefined && !((readNumber(confidence) ?? 0) > 0)
  if (status !== null && isEcho) return status.reading
  if (confidence !== undefined && (described || inner !== null)) return foundReading(value, kind, confidence)
  if (status?.strength === 'error') return status.reading
  if (described) {
    if (kind.kind === 'company') return foundReading(value, kind, undefined)
    if (kind.confidence === null)
      return tellsOfPerson(pickFields(value, kind))
        ? foundReading(value, kind, undefined)
        : { outcome: 'not_found' }
    if (outer !== undefined && outer !== null) return foundReading(value, kind, outer)
    return status?.reading ?? { outcome: 'not_found' }
  }
  if (status !== null) return status.reading
  if (inner !== undefined || depth > 0 || hasOnlyEmptyFields(value, kind)) return { outcome: 'not_found' }
  const places = kind.wrappers.map((name) => `\`${name}\``).join(', ')
  return {
    outcome: 'unreadable',
    reason: `an object that is no ${kind.kind} record${places && `, and has none as ${places}`}`,
  }
}

/**
 * An unreadable confidence of a person (`"low"`, -0.3, 250) counts as 0: as unknown it would pass any `minConfidence`,
 * and the record would be written.
 */
function foundReading(record: JsonObject, kind: RecordShape, confidence: unknown): RecordReading {
  if (kind.confidence === null)
    return { outcome: 'found', record, confidence: kind.kind === 'person' ? 1 : null }
  const read =
    kind.confidenceMax === null
      ? readConfidence(confidence)
      : readScaledConfidence(confidence, kind.confidenceMax)
  return { outcome: 'found', record, confidence: kind.kind === 'person' ? (read ?? 0) : read }
}

function readFirstFound(
  values: readonly unknown[],
  kind: RecordShape,
  outer: unknown,
  depth: number,
): RecordReading {
  let first: RecordReading | null = null
  // A lookup has one result; a long list is not searched.
  for (const value of values.slice(0, 10)) {
    const reading = readValue(value, kind, outer, depth + 1)
    if (reading.outcome === 'found') return reading
    first ??= reading
  }
  return first ?? { outcome: 'not_found' }
}

/** The content of the first wrapper that holds an object or a list; null if all wrappers are empty. */
function findWrapped(value: JsonObject, kind: RecordShape): unknown {
  let inner: unknown
  for (const field of kind.wrappers) {
    if (!Object.hasOwn(value, field)) continue
    const candidate = value[field]
    if ((isObject(candidate) || Array.isArray(candidate)) && !isEmpty(candidate)) return candidate
    if (isEmpty(candidate)) inner = null
  }
  return inner
}

/** Whether the object has fields of a record. Beside a message, a name or an id is no evidence. */
function hasRecordFields(value: JsonObject, kind: RecordShape): boolean {
  if (firstPresent(value, kind.distinctiveFields) !== undefined) return true
  return typeof value['message'] !== 'string' && firstPresent(value, kind.ambiguousFields) !== undefined
}

const pickFields = (value: JsonObject, { distinctiveFields, ambiguousFields }: RecordShape): JsonObject =>
  Object.fromEntries(
    Object.entries(value).filter(
      ([field]) => distinctiveFields.includes(field) || ambiguousFields.includes(field),
    ),
  )

/** Fields about the employer, anywhere in a record: `company.name`, `organization_id`, `job_company_size`. */
const EMPLOYER = /company|organi[sz]ation|employer/i
/** A value that is kept back: `+1 415-3**-****`. */
const MASK = /\*{2}/

/**
 * Whether a record of a person holds anything about the person. An employer is no evidence that a person was found, and a mask is no
 * value.
 */
export const tellsOfPerson = (record: JsonObject): boolean =>
  Object.entries(record).some(([field, value]) => !EMPLOYER.test(field) && holdsValue(value))

function holdsValue(value: unknown): boolean {
  if (typeof value === 'string') return value.trim() !== '' && !MASK.test(value)
  if (Array.isArray(value)) return value.some(holdsValue)
  if (isObject(value) && toNumberText(value) === null) return tellsOfPerson(value)
  return typeof value === 'number' || isObject(value)
}

const hasOnlyEmptyFields = (value: JsonObject, kind: RecordShape): boolean =>
  [...kind.distinctiveFields, ...kind.ambiguousFields].some(
    (field) => Object.hasOwn(value, field) && isEmpty(value[field]),
  )

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '' || value === false) return true
  if (Array.isArray(value)) return value.length === 0
  return typeof value === 'object' && Object.keys(value).length === 0
}
