import type { InputName, NameDetail, SourceKind } from '../mapping.ts'
import { normalizeDomain, normalizeEmail, normalizeProfileUrl } from './addresses.ts'
import {
  INPUT_NAMES,
  LOOKUP_KINDS,
  toLookupKind,
  type InputNote,
  type LookupInput,
  type LookupKind,
  type NormalizedInput,
} from './kind.ts'
import { normalizeNameCompany } from './name-company.ts'

/** A row's inputs, as its source's expressions evaluate. */
export type RawInputs = Readonly<Record<InputName, string | null>>

export interface ChosenLookup {
  readonly lookup: { readonly kind: LookupKind; readonly key: string; readonly input: LookupInput } | null
  readonly notes: readonly InputNote[]
}

/**
 * Chooses the lookup for a row: its first usable identifier, in the order of `LOOKUP_KINDS`. `notes` lists the
 * invalid identifiers before it, and what is left out of it. If none is usable the lookup is null and the notes say
 * why, `no input` if all are blank.
 * @param raw without the inputs that the source does not have
 * @param options.after only identifiers that follow this kind count: the next step of a cascade
 * @param options.takes only these inputs count: those that the service takes
 * @param options.details sent with name and company
 */
export function chooseLookup(
  kind: SourceKind,
  raw: Partial<RawInputs>,
  options: KindFilter = {},
): ChosenLookup {
  const notes: InputNote[] = []
  for (const lookupKind of listKinds(kind, options)) {
    const normalized = normalizeInput(lookupKind, raw, options.details)
    if (normalized === null) continue
    if (normalized.ok) {
      const { key, input, notes: leftOut = [] } = normalized
      return { lookup: { kind: lookupKind, key, input }, notes: [...notes, ...leftOut] }
    }
    notes.push({ input: normalized.input, reason: normalized.reason })
  }
  if (notes.length === 0) notes.push({ input: INPUT_NAMES[kind][0] ?? 'email', reason: 'no input' })
  return { lookup: null, notes }
}

function normalizeInput(
  kind: LookupKind,
  raw: Partial<RawInputs>,
  details: KindFilter['details'],
): NormalizedInput<LookupInput> {
  switch (kind) {
    case 'email':
      return normalizeEmail(raw.email ?? null)
    case 'linkedin_url':
      return normalizeProfileUrl(raw.linkedin_url ?? null)
    case 'name_company':
      return normalizeNameCompany(raw, details)
    case 'domain':
      return normalizeDomain(raw.domain ?? null)
  }
}

interface KindFilter {
  readonly after?: LookupKind
  /** What the service takes; null: everything. */
  readonly takes?: readonly InputName[] | null
  /** Default: none, name and company alone. */
  readonly details?: readonly NameDetail[]
}

/** Empty if `after` is not a kind of this source: starting over would repeat the same lookup. */
function listKinds(source: SourceKind, { after, takes = null }: KindFilter): readonly LookupKind[] {
  const all: readonly LookupKind[] = LOOKUP_KINDS[source]
  const isAfter = (kind: LookupKind): boolean =>
    after === undefined || (all.includes(after) && all.indexOf(kind) > all.indexOf(after))
  return all.filter(
    (kind) => isAfter(kind) && (takes === null || takes.some((input) => toLookupKind(input) === kind)),
  )
}
