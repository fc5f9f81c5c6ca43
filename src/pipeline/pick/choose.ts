import { chooseLookup, type Choice, type RawInputs } from '../../domain/identifiers/choose.ts'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { Source } from '../../sources/source.ts'
import type { Wanted } from '../../store/lookups.ts'
import type { Candidate } from './candidates.ts'

/** A candidate with the question that its inputs make. */
export interface Chosen {
  readonly candidate: Candidate
  /** Null: no usable input; the notes say why. */
  readonly lookup: Wanted | null
  readonly notes: readonly { readonly input: string; readonly reason: string }[]
}

/**
 * Normalises a candidate's inputs and chooses the best identifier among them, in a cascade the best of those that have
 * not been tried. Pure.
 */
export function choose(source: Source, candidate: Candidate): Chosen {
  const tried = candidate.tried?.kinds ?? []
  const notes: Note[] = []
  for (const choice of identifiers(source, candidate)) {
    notes.push(...choice.notes)
    if (choice.lookup === null || !tried.includes(choice.lookup.kind))
      return { candidate, lookup: choice.lookup, notes: tried.length > 0 ? notes.filter(isTelling) : notes }
  }
  throw new Error('the identifiers of a row came to no end')
}

/** A candidate's usable identifiers, the best first; the last one is none, with the reason. */
export function* identifiers(source: Source, { email, linkedin_url, name, company, domain }: RawInputs) {
  const inputs = { email, linkedin_url, name, company, domain }
  for (let after: LookupKind | null = null; ;) {
    const choice: Choice = chooseLookup(source.mapping.kind, inputs, after === null ? {} : { after })
    yield choice
    if (choice.lookup === null) return
    after = choice.lookup.kind
  }
}

type Note = Chosen['notes'][number]

/** Where some identifier was asked with, a blank one is nothing to tell of. */
const isTelling = (note: Note): boolean => note.reason !== 'no input'

/** Why a row can't be asked about, in words. */
export function unusable(notes: Chosen['notes']): string {
  if (notes.length === 0) return 'no input'
  return notes
    .map((note) => (note.reason === 'no input' ? note.reason : `${note.input}: ${note.reason}`))
    .join('; ')
}

const BY: Readonly<Record<LookupKind, string>> = {
  email: 'email',
  linkedin_url: 'profile URL',
  name_company: 'name and company',
  domain: 'domain',
}

/** That nothing was found, and by what it was asked. */
export function foundNothing(kinds: readonly LookupKind[]): string {
  const by = kinds.map((kind) => `by ${BY[kind]}`)
  const last = by.at(-1) ?? ''
  return `the service found no match ${by.length < 2 ? last : `${by.slice(0, -1).join(', ')} or ${last}`}`
}

/** The distinct lookups of some rows, in the order of the rows. */
export function distinctLookups(chosen: readonly Chosen[]): Map<string, Wanted> {
  const distinct = new Map<string, Wanted>()
  for (const { lookup } of chosen) {
    if (lookup === null) continue
    const id = lookupId(lookup)
    if (!distinct.has(id)) distinct.set(id, lookup)
  }
  return distinct
}

export const lookupId = (lookup: { readonly kind: string; readonly key: string }): string =>
  `${lookup.kind}\n${lookup.key}`
