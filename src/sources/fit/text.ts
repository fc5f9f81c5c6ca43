import { fits, misfit, type Fitting } from './outcome.ts'

/** A scalar as text; null for what has no text of its own: null, an array, an object. */
export function toText(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint'
    ? String(value)
    : null
}

/** Text of at most so many characters, counted as Postgres counts them: by code point. */
export function fitText(value: unknown, maxLength: number | null, tooLong: 'skip' | 'truncate'): Fitting {
  const text = toText(value)
  if (text === null) return misfit('not_a_text')
  if (maxLength === null || text.length <= maxLength) return fits(text)
  const characters = [...text]
  if (characters.length <= maxLength) return fits(text)
  return tooLong === 'truncate' ? fits(characters.slice(0, maxLength).join('')) : misfit('too_long')
}
