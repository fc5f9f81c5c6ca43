import { NAME_DETAILS, type NameDetail } from '../mapping.ts'
import { collapseWhitespace } from '../text.ts'
import { normalizeDomain } from './addresses.ts'
import type { InputNote, NameInput, NormalizedInput } from './kind.ts'

const MAX_TEXT_LENGTH = 200

/** Characters without a glyph, ignored in comparisons: soft hyphens, joiners, direction marks. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu

type NamePart = 'name' | 'company' | NameDetail

/**
 * Normalizes a person's name and company, both required: sent as typed with white space collapsed, compared
 * case-folded in compatibility form, so that full-width letters equal plain ones. A blank name is first and last
 * name joined; a usable domain stands for a missing company. An unusable detail is left out, with a note.
 *
 * The key is `name|company` with spaces as `+`, such as `jane+doe|acme+as`; it is unambiguous because `+`, `|` and
 * `%` are percent-encoded. With a detail it has five parts: `jane+van+doe||jane|van+doe|acme.com`.
 * @param details those that the service takes; no other is sent
 */
export function normalizeNameCompany(
  raw: { readonly [Part in NamePart]?: string | null },
  details: readonly NameDetail[] = [],
): NormalizedInput<NameInput> {
  const read = (input: NamePart): ReadPart => readPart(input, raw[input] ?? '')
  const joined = [read('first_name'), read('last_name')].filter(isUsable).map(({ text }) => text)
  const name = readPart('name', collapseWhitespace(raw.name ?? '') || joined.join(' '))
  const rest = [read('company'), ...details.map(read)]
  const employers = rest.filter(({ input }) => input === 'company' || input === 'company_domain')
  if ([name, ...employers].every(isBlank)) return null
  const unusable = isUsable(name)
    ? employers.some(isUsable)
      ? undefined
      : (employers.find((part) => !isBlank(part)) ?? employers[0])
    : name
  if (unusable !== undefined) return { ok: false, ...toNote(unusable) }

  const sent = [name, ...rest].filter(isUsable).map(({ input, text }) => [input, text] as const)
  const input = Object.fromEntries(sent) as unknown as NameInput
  const notes = rest.filter((part) => !isBlank(part) && !isUsable(part)).map(toNote)
  return { ok: true, key: toKey(input), input, ...(notes.length > 0 && { notes }) }
}

interface ReadPart {
  readonly input: NamePart
  readonly text: string
  /** Why it is unusable; null: it is not. */
  readonly fault: string | null
}

const isUsable = ({ fault }: ReadPart): boolean => fault === null
const isBlank = ({ text }: ReadPart): boolean => text === ''
const toNote = ({ input, fault }: ReadPart): InputNote => ({ input, reason: fault ?? '' })

function readPart(input: NamePart, raw: string): ReadPart {
  const text = collapseWhitespace(raw)
  if (input !== 'company_domain' || text === '') return { input, text, fault: describeFault(text) }
  const domain = normalizeDomain(text)
  return domain?.ok === true
    ? { input, text: domain.key, fault: null }
    : { input, text, fault: domain?.reason ?? 'missing' }
}

function describeFault(text: string): string | null {
  if (text === '') return 'missing'
  if (text.length > MAX_TEXT_LENGTH) return 'over 200 characters'
  // People fill a required field with a dash or a question mark, which would cost a call.
  return /[\p{L}\p{N}]/u.test(text.replace(INVISIBLE, '')) ? null : 'without a letter or digit'
}

function toKey(input: NameInput): string {
  const parts: readonly NamePart[] = ['name', 'company', ...NAME_DETAILS]
  const hasDetails = NAME_DETAILS.some((detail) => input[detail] !== undefined)
  return parts
    .slice(0, hasDetails ? undefined : 2)
    .map((part) => toKeyPart(input[part] ?? ''))
    .join('|')
}

/**
 * All keys that stand for the person of a key when one is erased: the key itself, and `name|company` with each form of the name and
 * of the company. The services that know the person may take other details, or none.
 * @example listNameKeys('dr+jane+doe|acme+as|jane|doe|acme.com') // also 'dr+jane+doe|acme+as', 'jane+doe|acme.com', …
 */
export function listNameKeys(key: string): string[] {
  const [name, company, first, last, domain] = key.split('|')
  const names = [name, first && last && `${first}+${last}`].filter((name) => name)
  const companies = [company, domain].filter((company) => company)
  return [...new Set([key, ...names.flatMap((name) => companies.map((other) => `${name}|${other}`))])]
}

function toKeyPart(text: string): string {
  const folded = collapseWhitespace(foldCase(foldCase(text)).replace(INVISIBLE, ''))
  return folded.replace(/[%+|]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll(' ', '+')
}

/** Via upper case, so that `Straße` equals `STRASSE` and a final sigma equals any other. */
function foldCase(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
}
