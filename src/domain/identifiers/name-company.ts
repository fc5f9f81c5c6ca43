import type { NormalizedInput } from './kind.ts'
import { collapseWhitespace } from '../text.ts'

const MAX_TEXT_LENGTH = 200

/** Characters that a font does not show and a comparison ignores: soft hyphens, joiners, direction marks. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu

const rejectInput = (input: 'name' | 'company', reason: string) =>
  ({ ok: false, reason: `${input} ${reason}`, input }) as const

/**
 * A person by name and company: both, or there is nothing to ask. Asked as typed, with white space squashed;
 * compared case-folded, in compatibility form (so that full-width letters equal plain ones).
 *
 * The key is `name|company` with the spaces as `+`, for instance `jane+doe|acme+as`: no white space in it,
 * and no two questions with one key, because `+`, `|` and `%` themselves are percent-encoded.
 */
export function normalizeNameCompany(
  rawName: string | null,
  rawCompany: string | null,
): NormalizedInput<{ name: string; company: string }> {
  const asked = { name: collapseWhitespace(rawName ?? ''), company: collapseWhitespace(rawCompany ?? '') }
  if (asked.name === '' && asked.company === '') return null
  for (const input of ['name', 'company'] as const) {
    const text = asked[input]
    if (text === '') return rejectInput(input, 'is missing')
    if (text.length > MAX_TEXT_LENGTH) return rejectInput(input, 'over 200 characters')
    // A dash or a question mark is how people fill a field that must be filled. It would cost a call.
    if (!/[\p{L}\p{N}]/u.test(text.replace(INVISIBLE, '')))
      return rejectInput(input, 'without a letter or digit')
  }
  return { ok: true, key: `${toKeyPart(asked.name)}|${toKeyPart(asked.company)}`, input: asked }
}

function toKeyPart(text: string): string {
  const folded = collapseWhitespace(foldCase(foldCase(text)).replace(INVISIBLE, ''))
  return folded.replace(/[%+|]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll(' ', '+')
}

/** By way of upper case, so that `Straße` equals `STRASSE` and a final sigma equals any other. */
function foldCase(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
}
