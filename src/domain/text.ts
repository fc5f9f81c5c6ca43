import { isObject } from './json.ts'

/** NUL and lone surrogates, which Postgres rejects in text and jsonb, and cannot read in json. */
const UNSTORABLE = /[\0\p{Surrogate}]/gu

const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

const cleanString = (text: string): string => (isStorable(text) ? text : text.replace(UNSTORABLE, ''))

/**
 * Removes NUL and lone surrogates, which Postgres rejects in `text` and `jsonb`, from every string of a value, keys
 * included. A value with nothing to remove is returned itself; nothing is changed in place. If two keys become equal,
 * the one that needed no cleaning wins, else the first.
 *
 * Uses an explicit stack instead of recursion, so that no nesting overflows it, and defines `__proto__` as an ordinary
 * key, so that a record cannot change a prototype. Not for cyclic values.
 */
export function cleanText<T>(value: T): T {
  if (typeof value === 'string') return cleanString(value) as T
  return isClean(value) ? value : (cleanCopy(value) as T)
}

/** A number kept as raw JSON is not a nested value. */
const isNested = (value: unknown): value is object => Array.isArray(value) || isObject(value)

function isClean(root: unknown): boolean {
  const waiting: unknown[] = [root]
  while (waiting.length > 0) {
    const value = waiting.pop()
    if (Array.isArray(value)) {
      for (const item of value) {
        if (typeof item === 'string') {
          if (!isStorable(item)) return false
        } else if (isNested(item)) waiting.push(item)
      }
    } else if (isNested(value)) {
      for (const [key, item] of Object.entries(value)) {
        if (!isStorable(key)) return false
        if (typeof item === 'string') {
          if (!isStorable(item)) return false
        } else if (isNested(item)) waiting.push(item)
      }
    }
  }
  return true
}

function cleanCopy(root: unknown): unknown {
  const waiting: Array<{ from: object; to: object }> = []
  const place = (value: unknown): unknown => {
    if (typeof value === 'string') return cleanString(value)
    if (!isNested(value)) return value
    const to = Array.isArray(value) ? [] : {}
    waiting.push({ from: value, to })
    return to
  }
  const result = place(root)
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { from, to } = next
    if (Array.isArray(from) && Array.isArray(to)) {
      for (const item of from) to.push(place(item))
      continue
    }
    for (const [key, item] of Object.entries(from)) {
      const cleaned = cleanString(key)
      if (cleaned !== key && (Object.hasOwn(from, cleaned) || Object.hasOwn(to, cleaned))) continue
      Object.defineProperty(to, cleaned, {
        value: place(item),
        writable: true,
        enumerable: true,
        configurable: true,
      })
    }
  }
  return result
}

/**
 * Blank characters: white space (no-break and full-width spaces too) and the zero-width marks left behind by copying
 * from web pages and spreadsheets. Zero-width joiners count only at the ends of a value: inside one, scripts such as
 * Persian need them.
 */
const BLANK = /[\s\p{Cc}\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u

/** Removes blank characters at both ends. Linear in the length. */
export function trimBlank(text: string): string {
  if (isVisibleAscii(text.charCodeAt(0)) && isVisibleAscii(text.charCodeAt(text.length - 1))) return text
  // Two indices instead of `/[…]+$/`, which takes quadratic time on a long run of spaces inside a value.
  let start = 0
  let end = text.length
  while (start < end && BLANK.test(text.charAt(start))) start++
  while (end > start && BLANK.test(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

const isVisibleAscii = (code: number): boolean => code > 0x20 && code < 0x7f

/** Trims, and replaces every run of white space, control characters and lone surrogates by one space. */
export function collapseWhitespace(text: string): string {
  return trimBlank(text.replace(/[\s\p{Cc}\p{Cs}\u200b\u2060]+/gu, ' '))
}
