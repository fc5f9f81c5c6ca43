import { chooseLookup } from '../../domain/identifiers/choose.ts'
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

/** Normalises a candidate's inputs and chooses the best identifier among them. Pure. */
export function choose(source: Source, candidate: Candidate): Chosen {
  const { lookup, notes } = chooseLookup(source.mapping.kind, {
    email: candidate.email,
    linkedin_url: candidate.linkedin_url,
    name: candidate.name,
    company: candidate.company,
    domain: candidate.domain,
  })
  return { candidate, lookup, notes }
}

/** Why a row can't be asked about, in words. */
export function unusable(notes: Chosen['notes']): string {
  if (notes.length === 0) return 'no input'
  return notes
    .map((note) => (note.reason === 'no input' ? note.reason : `${note.input}: ${note.reason}`))
    .join('; ')
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
