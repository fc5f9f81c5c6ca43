export type JsonObject = { [field: string]: unknown }

export type ParsedJson = { ok: true; value: unknown } | { ok: false; reason: string }

/** Deeper than any record, and far below where Postgres (about 6,000) and JSON.stringify give up. */
const deepest = 100

/** Digits enough to leave the exact integers of a double, or an exponent that may leave its range. */
const maybeInexact = /\d{16}|e\+?\d{3}/i

/**
 * Reads a JSON text that came from outside. A text nested more than 100 levels deep is refused before it is
 * parsed: JSON.parse takes seconds for a few megabytes of brackets, and nothing after it could store them.
 * Whole numbers that a double cannot hold come as strings of their digits, because an identifier rounded to
 * its neighbour would be another's, and so do numbers out of a double's range. A byte order mark is skipped.
 * The reason never quotes the text, which may hold personal data.
 */
export function parseJson(text: string): ParsedJson {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  if (isNestedDeeper(json, deepest)) return { ok: false, reason: `nested more than ${deepest} levels deep` }
  try {
    return { ok: true, value: maybeInexact.test(json) ? JSON.parse(json, exactNumber) : JSON.parse(json) }
  } catch {
    return { ok: false, reason: json.trim() === '' ? 'empty' : 'not JSON' }
  }
}

/** The source text of a number, given since Node 21 (TC39 "JSON.parse source text access", stage 4). */
function exactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
  const source = context?.source
  if (source === undefined) return value
  return !Number.isFinite(value) || /^-?\d+$/.test(source) ? source : value
}

/** One pass over the text; brackets inside strings do not count. */
function isNestedDeeper(json: string, limit: number): boolean {
  let depth = 0
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === 0x22) {
      // Skip the string: to the next quote that has an even number of backslashes before it.
      i = json.indexOf('"', i + 1)
      while (i !== -1 && isEscaped(json, i)) i = json.indexOf('"', i + 1)
      if (i === -1) return false
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > limit) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}

function isEscaped(json: string, quote: number): boolean {
  let backslashes = 0
  while (json.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
  return backslashes % 2 === 1
}

/** Whether the value is a JSON object: not null and not an array. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The first of the fields that the object has itself and that is not null. Inherited names are no fields. */
export function firstOf(object: JsonObject, fields: readonly string[]): unknown {
  for (const field of fields) {
    if (!Object.hasOwn(object, field)) continue
    const value = object[field]
    if (value !== null && value !== undefined) return value
  }
  return undefined
}

/** An identifier as text: a non-empty string or a number. */
export function identifier(value: unknown): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value
  return typeof value === 'number' ? String(value) : null
}

/** What JSON.parse and JSON.stringify may not give back as it was: `12.50`, 20 digits, an exponent. */
const maybeRewritten = /\.\d*0\b|[\d.]{16}|\de[+-]?\d/i

/**
 * Reads JSON that Postgres made, so that JSON.stringify gives back the very same numbers. One that JavaScript would
 * write in another way stands as a raw JSON object (TC39 "JSON.parse source text access"), which only JSON.stringify
 * can read: a value that is put back into a table must be what it was, to the last zero.
 */
export function parseKeepingNumbers(text: string): unknown {
  return maybeRewritten.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text)
}

function keepNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source
  return typeof value !== 'number' || source === undefined || String(value) === source
    ? value
    : rawJson(source)
}

/** Node has it since version 21, TypeScript's library does not know it yet. */
const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown }
