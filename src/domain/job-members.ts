import { normalizeDomain } from './identifiers/domain.ts'
import { normalizeEmail } from './identifiers/email.ts'
import { normalizeProfileUrl } from './identifiers/profile-url.ts'

/** What a text can identify a member of a job by. */
type IdentifierKind = 'email' | 'profile' | 'domain'

/** The kind of a member's identifier; null: it has none, as one that is looked up by name, or was erased. */
function kindOfIdentifier(identifier: string): IdentifierKind | null {
  if (identifier === '') return null
  if (identifier.includes('@')) return 'email'
  return /linkedin\.com\//i.test(identifier) ? 'profile' : 'domain'
}

/** The members of a job by what identifies them. */
export interface JobMembers {
  readonly size: number
  /** Null: the member has no identifier. */
  readonly kinds: readonly (IdentifierKind | null)[]
  /** The same, each once. */
  readonly present: ReadonlySet<IdentifierKind | null>
  /** The member that a text names: by an address, a profile URL or a domain, in any of their forms. */
  find(text: string | null): number | undefined
  /** Whether a text names something of this kind that is no member. */
  isStranger(text: string | null, kind: IdentifierKind | null): boolean
}

/** @param identifiers in the order of submission */
export function indexMembers(identifiers: readonly string[]): JobMembers {
  const kinds = identifiers.map(kindOfIdentifier)
  const present = new Set(kinds)
  const toKey = (text: string, kind: IdentifierKind | null): string | null => {
    const normalized =
      kind === 'email'
        ? normalizeEmail(text)
        : kind === 'profile'
          ? normalizeProfileUrl(text)
          : normalizeDomain(text)
    return normalized?.ok ? normalized.key : null
  }
  const members = new Map<string, number>()
  for (const [index, identifier] of identifiers.entries()) {
    const kind = kinds[index] ?? null
    if (kind === null) continue
    members.set(identifier.toLowerCase(), index)
    if (kind === 'profile') members.set(toKey(identifier, kind) ?? '', index)
  }
  const find = (text: string | null): number | undefined => {
    if (text === null || text === '') return undefined
    const kind = kindOfIdentifier(text)
    // Most identifiers of results are no addresses, and most jobs have nothing else.
    if (!present.has(kind)) return undefined
    const plain = members.get(text.trim().toLowerCase())
    if (plain !== undefined) return plain
    const key = toKey(text, kind)
    return key === null ? undefined : members.get(key)
  }
  return {
    size: identifiers.length,
    kinds,
    present,
    find,
    isStranger: (text, kind) =>
      text !== null &&
      kind !== null &&
      kindOfIdentifier(text) === kind &&
      (kind === 'email' || toKey(text, kind) !== null) &&
      find(text) === undefined,
  }
}
