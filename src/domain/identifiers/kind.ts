import type { InputName, SourceKind } from '../mapping.ts'

/** By what a lookup asks. A lookup is one (kind, key); many rows can share it. */
export type LookupKind = 'email' | 'linkedin_url' | 'name_company' | 'domain'

/** What the service is asked, in its own field names (E1 for a person, E3 for a company). */
export type LookupInput =
  | { readonly email: string }
  | { readonly linkedin_url: string }
  | { readonly name: string; readonly company: string }
  | { readonly domain: string }

/**
 * One input after normalising. Null: blank, so there is nothing to ask and nothing to complain of. A reason
 * is one of a few stable phrases and never holds the value, so that reasons can be counted and logged; `input`
 * is the one at fault.
 */
export type NormalizedInput<Input extends LookupInput> =
  | { readonly ok: true; readonly key: string; readonly input: Input }
  | { readonly ok: false; readonly reason: string; readonly input: InputName }
  | null

/** The kinds that can identify a row of a source, in the order in which they are tried. */
export const LOOKUP_KINDS: Readonly<Record<SourceKind, readonly LookupKind[]>> = {
  person: ['email', 'linkedin_url', 'name_company'],
  company: ['domain'],
}

/** Whether a row of the source goes on to its next identifier when one finds nothing. */
export const hasCascade = (source: { readonly kind: SourceKind; readonly cascade: boolean }): boolean =>
  source.cascade && LOOKUP_KINDS[source.kind].length > 1

/** The inputs that a source of each kind may map. */
export const INPUT_NAMES: Readonly<Record<SourceKind, readonly InputName[]>> = {
  person: ['email', 'linkedin_url', 'name', 'company'],
  company: ['domain'],
}
