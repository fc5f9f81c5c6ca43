import type { Normalized } from './kind.ts'
import { squash } from './space.ts'

const longest = 200

/** Characters that a font does not show and a comparison ignores: soft hyphens, joiners, direction marks. */
const invisible = /\p{Default_Ignorable_Code_Point}/gu

const refuse = (input: 'name' | 'company', reason: string) =>
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
): Normalized<{ name: string; company: string }> {
  const asked = { name: squash(rawName ?? ''), company: squash(rawCompany ?? '') }
  if (asked.name === '' && asked.company === '') return null
  for (const input of ['name', 'company'] as const) {
    const text = asked[input]
    if (text === '') return refuse(input, 'is missing')
    if (text.length > longest) return refuse(input, 'over 200 characters')
    // A dash or a question mark is how people fill a field that must be filled. It would cost a call.
    if (!/[\p{L}\p{N}]/u.test(text.replace(invisible, ''))) return refuse(input, 'without a letter or digit')
  }
  return { ok: true, key: `${part(asked.name)}|${part(asked.company)}`, input: asked }
}

function part(text: string): string {
  const folded = squash(fold(fold(text)).replace(invisible, ''))
  return folded.replace(/[%+|]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll(' ', '+')
}

/** By way of upper case, so that `Straße` equals `STRASSE` and a final sigma equals any other. */
function fold(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
}
