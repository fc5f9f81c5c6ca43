import type { NormalizedInput } from './kind.ts'
import { collapseWhitespace } from '../text.ts'

const MAX_TEXT_LENGTH = 200

/** Characters without a glyph, ignored in comparisons: soft hyphens, joiners, direction marks. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu

const rejectInput = (input: 'name' | 'company', reason: string) => ({ ok: false, reason, input }) as const

/**
 * Normalizes a person's name and company; both are required. They are sent as typed, with white space collapsed, and
 * compared case-folded in compatibility form (so that full-width letters equal plain ones).
 *
 * The key is `name|company` with spaces as `+`, such as `jane+doe|acme+as`: without white space and unambiguous, because
 * `+`, `|` and `%` themselves are percent-encoded.
 */
export function normalizeNameCompany(
  rawName: string | null,
  rawCompany: string | null,
): NormalizedInput<{ name: string; company: string }> {
  const parts = { name: collapseWhitespace(rawName ?? ''), company: collapseWhitespace(rawCompany ?? '') }
  if (parts.name === '' && parts.company === '') return null
  for (const input of ['name', 'company'] as const) {
    const text = parts[input]
    if (text === '') return rejectInput(input, 'missing')
    if (text.length > MAX_TEXT_LENGTH) return rejectInput(input, 'over 200 characters')
    // People fill a required field with a dash or a question mark, which would cost a call.
    if (!/[\p{L}\p{N}]/u.test(text.replace(INVISIBLE, '')))
      return rejectInput(input, 'without a letter or digit')
  }
  return { ok: true, key: `${toKeyPart(parts.name)}|${toKeyPart(parts.company)}`, input: parts }
}

function toKeyPart(text: string): string {
  const folded = collapseWhitespace(foldCase(foldCase(text)).replace(INVISIBLE, ''))
  return folded.replace(/[%+|]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll(' ', '+')
}

/** Via upper case, so that `Straße` equals `STRASSE` and a final sigma equals any other. */
function foldCase(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
}
