import { NAME_DETAILS, type NameDetail } from '../mapping.ts'
import { collapseWhitespace } from '../text.ts'
import { normalizeDomain } from './domain.ts'
import type { InputNote, NameInput, NormalizedInput } from './kind.ts'

const MAX_TEXT_LENGTH = 200

/** Characters without a glyph, ignored in comparisons: soft hyphens, joiners, direction marks. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu

type NamePart = 'name' | 'company' | NameDetail
type NameParts = { readonly [Part in NamePart]?: string | null }

/**
 * Normalizes a person's name and company; both are required. They are sent as typed, with white space collapsed, and
 * compared case-folded in compatibility form (so that full-width letters equal plain ones). A blank name is first and last name
 * joined. Of the details only those that the service takes are sent, the domain normalized; it then stands for a company that is
 * missing or unusable. An unusable detail is left out, with a note.
 *
 * The key is `name|company` with spaces as `+`, such as `jane+doe|acme+as`: without white space and unambiguous, because
 * `+`, `|` and `%` themselves are percent-encoded. With a detail it has five parts, what is not sent empty:
 * `jane+van+doe||jane|van+doe|acme.com`.
 * @param details those that the service takes
 */
export function normalizeNameCompany(
  raw: NameParts,
  details: readonly NameDetail[] = [],
): NormalizedInput<NameInput> {
  const parts = { ...readPart('first_name', raw), ...readPart('last_name', raw) }
  const domain = details.includes('company_domain') ? normalizeDomain(raw.company_domain ?? null) : null
  const given = {
    name: toText(raw.name) || [parts.first_name, parts.last_name].filter((part) => part).join(' '),
    company: toText(raw.company),
  }
  if (given.name === '' && given.company === '' && domain === null) return null
  const nameFault = describeFault(given.name)
  if (nameFault !== null) return { ok: false, reason: nameFault, input: 'name' }
  const companyFault = describeFault(given.company)
  if (companyFault !== null && domain?.ok !== true)
    return given.company === '' && domain !== null
      ? { ok: false, reason: domain.reason, input: 'company_domain' }
      : { ok: false, reason: companyFault, input: 'company' }

  const all = { ...parts, ...(domain?.ok === true && { company_domain: domain.key }) }
  const input: NameInput = {
    name: given.name,
    ...(companyFault === null && { company: given.company }),
    ...Object.fromEntries(Object.entries(all).filter(([detail]) => details.some((one) => one === detail))),
  }
  const notes = listLeftOut(input, raw, details, domain)
  return { ok: true, key: toKey(input), input, ...(notes.length > 0 && { notes }) }
}

const toText = (raw: string | null | undefined): string => collapseWhitespace(raw ?? '')

function describeFault(text: string): string | null {
  if (text === '') return 'missing'
  if (text.length > MAX_TEXT_LENGTH) return 'over 200 characters'
  // People fill a required field with a dash or a question mark, which would cost a call.
  return /[\p{L}\p{N}]/u.test(text.replace(INVISIBLE, '')) ? null : 'without a letter or digit'
}

/** A first or last name, if it is usable. */
function readPart<Part extends 'first_name' | 'last_name'>(
  part: Part,
  raw: NameParts,
): { [Name in Part]?: string } {
  const text = toText(raw[part])
  return describeFault(text) === null ? ({ [part]: text } as { [Name in Part]: string }) : {}
}

/** Why what the row has, and the service takes, is not sent. */
const listLeftOut = (
  input: NameInput,
  raw: NameParts,
  details: readonly NameDetail[],
  domain: ReturnType<typeof normalizeDomain>,
): InputNote[] =>
  (['company', ...details] as const).flatMap((part) => {
    const text = toText(raw[part])
    if (text === '' || input[part] !== undefined) return []
    const reason =
      part !== 'company_domain' ? describeFault(text) : domain?.ok === false ? domain.reason : null
    return reason === null ? [] : [{ input: part, reason }]
  })

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
  const names = [name, first && last && `${first}+${last}`].filter((one) => one)
  const companies = [company, domain].filter((one) => one)
  return [...new Set([key, ...names.flatMap((one) => companies.map((other) => `${one}|${other}`))])]
}

function toKeyPart(text: string): string {
  const folded = collapseWhitespace(foldCase(foldCase(text)).replace(INVISIBLE, ''))
  return folded.replace(/[%+|]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll(' ', '+')
}

/** Via upper case, so that `Straße` equals `STRASSE` and a final sigma equals any other. */
function foldCase(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
}
