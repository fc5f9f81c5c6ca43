import { isObject } from './json.ts'

/** NUL, and each half of a surrogate pair that stands alone: what Postgres refuses in text and jsonb. */
const unstorable = /[\0\p{Surrogate}]/gu

const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

const cleanString = (text: string): string => (isStorable(text) ? text : text.replace(unstorable, ''))

/**
 * The value with every string in it, keys included, freed of NUL and lone surrogates, which Postgres
 * refuses in `text` and `jsonb`. Everything else stays as it came. A value with nothing to remove is
 * returned itself, not copied, and none is changed in place. Where two keys become one, the key that
 * needed no cleaning wins, else the first.
 *
 * Walks with its own stack and not by recursion, so that no nesting overflows it, and defines `__proto__`
 * as an ordinary key, so that a record cannot change what objects inherit. Not for cyclic values.
 */
export function cleanText<T>(value: T): T
export function cleanText(value: unknown): unknown {
  if (typeof value === 'string') return cleanString(value)
  return isClean(value) ? value : cleanCopy(value)
}

/** A number that is kept as raw JSON is no object to look into. */
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
