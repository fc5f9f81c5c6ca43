import { type InputName, NAME_DETAILS, type NameDetail, type SourceKind } from '../mapping.ts'

/** The kinds that can identify a row of a source, in the order in which they are tried. */
export const LOOKUP_KINDS = {
  person: ['email', 'linkedin_url', 'name_company'],
  company: ['domain'],
} as const satisfies Record<SourceKind, readonly string[]>

/** What identifies a lookup. A lookup is one (kind, key) and may be shared by many rows. */
export type LookupKind = (typeof LOOKUP_KINDS)[SourceKind][number]

export const ALL_LOOKUP_KINDS: readonly LookupKind[] = [...LOOKUP_KINDS.person, ...LOOKUP_KINDS.company]

/** The endpoint that a lookup of this kind calls, and whose subject it is about. */
export const endpointOf = (kind: LookupKind): SourceKind => (kind === 'domain' ? 'company' : 'person')

/** What a lookup goes by, in words for people. */
export const BY_KIND: Readonly<Record<LookupKind, string>> = {
  email: 'by email',
  linkedin_url: 'by profile URL',
  name_company: 'by name and company',
  domain: 'by domain',
}

const isNameDetail = (input: InputName): input is NameDetail =>
  NAME_DETAILS.some((detail) => detail === input)

/** What an input of a source identifies a row by, alone or with its partner. */
export const toLookupKind = (input: InputName): LookupKind =>
  input === 'name' || input === 'company' || isNameDetail(input) ? 'name_company' : input

/**
 * Whether a service looks rows up by an input of a source, given all that the source maps. A first and a last name make the name
 * where there is none; a domain stands for the company where the service takes it.
 * @param taken as the service's endpoint lists it
 */
export function isInputTaken(
  taken: ReadonlySet<string>,
  input: InputName,
  mapped: Readonly<Partial<Record<InputName, unknown>>>,
): boolean {
  const kind = toLookupKind(input)
  if (kind !== 'name_company' || !taken.has(kind)) return taken.has(kind)
  if (mapped.company === undefined && !taken.has('company_domain')) return false
  if (!isNameDetail(input) || taken.has(input)) return true
  return input !== 'company_domain' && mapped.name === undefined
}

/** What a lookup sends, in the service's field names. */
export type LookupInput =
  | { readonly email: string }
  | { readonly linkedin_url: string }
  | NameInput
  | { readonly domain: string }

/** A person's name, with the company, its domain or both, and with the details that the service takes. */
export type NameInput = { readonly name: string; readonly company?: string } & {
  readonly [Detail in NameDetail]?: string
}

/** Why an input is unusable. The reason is a fixed phrase without the value. */
export interface InputNote {
  readonly input: InputName
  readonly reason: string
}

/**
 * An input after normalization; null if blank, which is not an error. A reason is a fixed phrase without the value, so
 * that reasons can be counted and logged; `input` is the invalid one. `notes`: what is left out of a valid one.
 */
export type NormalizedInput<Input extends LookupInput> =
  | {
      readonly ok: true
      readonly key: string
      readonly input: Input
      readonly notes?: readonly InputNote[]
    }
  | ({ readonly ok: false } & InputNote)
  | null

/** Whether a row of the source continues with its next identifier after a miss. */
export const hasCascade = (source: { readonly kind: SourceKind; readonly cascade: boolean }): boolean =>
  source.cascade && LOOKUP_KINDS[source.kind].length > 1

/** The inputs that a source of each kind may map. */
export const INPUT_NAMES: Readonly<Record<SourceKind, readonly InputName[]>> = {
  person: ['email', 'linkedin_url', 'name', 'company', ...NAME_DETAILS],
  company: ['domain'],
}
