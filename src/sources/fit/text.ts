import { numberText } from '../../domain/json.ts'
import type { Fit } from '../column-type.ts'
import { fits, misfit, type Fitting } from './outcome.ts'

/** A scalar as text, a number as the service wrote it; null for what has no text of its own. */
export function toText(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || typeof value === 'bigint' ? String(value) : numberText(value)
}

/** A text, held against the room in its column: characters as Postgres counts them, by code point, or bytes. */
export function fitText(
  value: unknown,
  { maxLength, maxBytes }: Pick<Extract<Fit, { kind: 'text' }>, 'maxLength' | 'maxBytes'>,
  tooLong: 'skip' | 'truncate',
): Fitting {
  const text = toText(value)
  if (text === null) return misfit('not_a_text')
  const kept = maxBytes === undefined ? firstCharacters(text, maxLength) : firstBytes(text, maxBytes)
  if (kept === text) return fits(text)
  return tooLong === 'truncate' && kept !== '' ? fits(kept) : misfit('too_long')
}

function firstCharacters(text: string, most: number | null): string {
  if (most === null || text.length <= most) return text
  const characters = [...text]
  return characters.length <= most ? text : characters.slice(0, most).join('')
}

/** Whole characters only. */
function firstBytes(text: string, most: number): string {
  let bytes = 0
  let kept = ''
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > most) return kept
    kept += character
  }
  return kept
}

/** A text of bits, also with a `B` before it. `bit(n)` must have exactly so many: its cast would fill up with zeros. */
export function fitBits(
  value: unknown,
  { length, exact }: Pick<Extract<Fit, { kind: 'bits' }>, 'length' | 'exact'>,
  tooLong: 'skip' | 'truncate',
): Fitting {
  const bits = /^b?([01]*)$/i.exec(toText(value)?.trim() ?? '-')?.[1]
  if (bits === undefined) return misfit('not_a_bit_string')
  if (length === null || bits.length === length) return fits(bits)
  if (bits.length > length) return tooLong === 'truncate' ? fits(bits.slice(0, length)) : misfit('too_long')
  return exact ? misfit('not_a_bit_string') : fits(bits)
}
