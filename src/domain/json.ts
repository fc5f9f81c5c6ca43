export type JsonObject = { [field: string]: unknown }

export type ParsedJson = { ok: true; value: unknown } | { ok: false; reason: string }

/** Deeper than any record, and far below the limits of Postgres (about 6,000) and JSON.stringify. */
const MAX_DEPTH = 100

/**
 * Parses JSON from outside. Nesting deeper than 100 levels is rejected before parsing: JSON.parse takes seconds for a
 * few megabytes of brackets, and nothing after it could store them. Numbers that JavaScript would not reproduce (20
 * digits, `12.50`) stay raw JSON, because a rounded identifier would be another one; `toNumberText` reads them. Numbers
 * beyond any column (`1e5000`) become strings. A byte order mark is skipped. The reason never quotes the
 * text, which may hold personal data.
 */
export function parseJson(text: string): ParsedJson {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  if (isNestedDeeper(json, MAX_DEPTH))
    return { ok: false, reason: `nested more than ${MAX_DEPTH} levels deep` }
  try {
    return {
      ok: true,
      value: mayBeRewritten(json) ? JSON.parse(json, keepStorableNumber) : JSON.parse(json),
    }
  } catch {
    return { ok: false, reason: json.trim() === '' ? 'empty' : 'not JSON' }
  }
}

/** Postgres's `numeric`, used by jsonb, holds 131,072 digits before the decimal point and 16,383 after it. */
function keepStorableNumber(key: string, value: unknown, context?: { source?: string }): unknown {
  const kept = keepExactNumber(key, value, context)
  const text = kept === value ? null : toNumberText(kept)
  if (text === null) return kept
  const exponent = Number(/e(.*)$/i.exec(text)?.[1] ?? '0')
  return text.length > 1_000 || Math.abs(exponent) > 1_000 ? text : kept
}

/** One pass over the text, if it has enough brackets at all; brackets inside strings do not count. */
function isNestedDeeper(json: string, limit: number): boolean {
  if (!hasMoreBrackets(json, limit)) return false
  let depth = 0
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === 0x22) {
      // Skip the string, up to the next quote with an even number of backslashes before it.
      i = json.indexOf('"', i + 1)
      while (i !== -1 && isEscaped(json, i)) i = json.indexOf('"', i + 1)
      if (i === -1) return false
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > limit) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}

/** Much cheaper than the pass, and false for a single record. */
function hasMoreBrackets(json: string, limit: number): boolean {
  let count = 0
  for (const bracket of '[{')
    for (let i = json.indexOf(bracket); i !== -1; i = json.indexOf(bracket, i + 1))
      if (++count > limit) return true
  return false
}

function isEscaped(json: string, quote: number): boolean {
  let backslashes = 0
  while (json.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
  return backslashes % 2 === 1
}

/**
 * Whether the value is a JSON object: not null, not an array, not a number kept as raw JSON. Those have
 * no prototype; to check that of each value with V8 takes longer than the rest.
 */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  (Object.getPrototypeOf(value) !== null || !isRawJson(value))

/** The items of a list, or the values of an object, whatever names them; none of anything else. */
export function listItems(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return isObject(value) ? Object.values(value) : []
}

/** The value of the first field that is an own property and not null. */
export function firstPresent(object: JsonObject, fields: readonly string[]): unknown {
  for (const field of fields) {
    if (!Object.hasOwn(object, field)) continue
    const value = object[field]
    if (value !== null && value !== undefined) return value
  }
  return undefined
}

/** An identifier as text: a non-empty string or a number. */
export function toIdentifier(value: unknown): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value
  return toNumberText(value)
}

/** A number as written in its JSON text; null for anything else. */
export function toNumberText(value: unknown): string | null {
  if (typeof value === 'number') return String(value)
  // `isRawJson` is a call into V8: most values need none.
  return typeof value === 'object' && isRawJson(value) ? value.rawJSON : null
}

/** Converts raw JSON numbers to plain ones, or to a string of their digits if a double cannot hold them. */
export function toPlainNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return (value as unknown[]).map(toPlainNumbers)
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([field, item]) => [field, toPlainNumbers(item)]))
  const text = isRawJson(value) ? value.rawJSON : null
  if (text === null) return value
  const number = Number(text)
  const isExact = Number.isFinite(number) && (Number.isSafeInteger(number) || !/^-?\d+$/.test(text))
  return isExact ? number : text
}

/**
 * Numbers that JSON.parse and JSON.stringify may not reproduce: 20 digits, `12.50`, an exponent. Only where the grammar
 * allows a number, because a hexadecimal identifier looks like an exponent (`"3e12"`). It begins with the
 * character before the number, which is rarer than a digit, so that most of a text is passed quickly.
 */
const REWRITTEN_NUMBER = /[:,[\s]-?\d(?:[\d.]{15}|\d*\.\d*0\b|[\d.]*[eE][+-]?\d)/

/** Whether the text may hold such a number. A text that is nothing but a number has nothing before it. */
const mayBeRewritten = (json: string): boolean => /^[-\d]/.test(json) || REWRITTEN_NUMBER.test(json)

/**
 * Parses JSON made by Postgres such that JSON.stringify reproduces every number, to the last zero: a restored value must
 * equal the original. Numbers that JavaScript would write differently become raw JSON objects (TC39
 * "JSON.parse source text access"), which only JSON.stringify can read.
 */
export function parseExactJson(text: string): unknown {
  return mayBeRewritten(text) ? JSON.parse(text, keepExactNumber) : JSON.parse(text)
}

function keepExactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source
  return typeof value !== 'number' || source === undefined || String(value) === source
    ? value
    : rawJson(source)
}

/** A number as raw JSON: an object without a prototype, which only JSON.stringify can write. */
interface RawJson {
  readonly rawJSON: string
}

/** In Node since version 21, but not yet in TypeScript's library. */
const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  readonly rawJSON: (text: string) => RawJson
  readonly isRawJSON: (value: unknown) => value is RawJson
}
