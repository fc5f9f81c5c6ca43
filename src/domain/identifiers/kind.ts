import type { InputName, SourceKind } from '../mapping.ts'

/** The kinds that can identify a row of a source, in the order in which they are tried. */
export const LOOKUP_KINDS = {
  person: ['email', 'linkedin_url', 'name_company'],
  company: ['domain'],
} as const satisfies Record<SourceKind, readonly string[]>

/** What identifies a lookup. A lookup is one (kind, key) and may be shared by many rows. */
export type LookupKind = (typeof LOOKUP_KINDS)[SourceKind][number]

export const ALL_LOOKUP_KINDS: readonly LookupKind[] = [...LOOKUP_KINDS.person, ...LOOKUP_KINDS.company]

/** What a lookup goes by, in words for people. */
export const BY_KIND: Readonly<Record<LookupKind, string>> = {
  email: 'by email',
  linkedin_url: 'by profile URL',
  name_company: 'by name and company',
  domain: 'by domain',
}

/** What an input of a source identifies a row by, alone or with its partner. */
export const toLookupKind = (input: InputName): LookupKind =>
  input === 'name' || input === 'company' ? 'name_company' : input

/** What a lookup sends, in the service's field names. */
export type LookupInput =
  | { readonly email: string }
  | { readonly linkedin_url: string }
  | { readonly name: string; readonly company: string }
  | { readonly domain: string }

/**
 * An input after normalization; null if blank, which is not an error. A reason is a fixed phrase without the value, so
 * that reasons can be counted and logged; `input` is the invalid one.
 */
export type NormalizedInput<Input extends LookupInput> =
  | { readonly ok: true; readonly key: string; readonly input: Input }
  | { readonly ok: false; readonly reason: string; readonly input: InputName }
  | null

/** Whether a row of the source continues with its next identifier after a miss. */
export const hasCascade = (source: { readonly kind: SourceKind; readonly cascade: boolean }): boolean =>
  source.cascade && LOOKUP_KINDS[source.kind].length > 1

/** The inputs that a source of each kind may map. */
export const INPUT_NAMES: Readonly<Record<SourceKind, readonly InputName[]>> = {
  person: ['email', 'linkedin_url', 'name', 'company'],
  company: ['domain'],
}
