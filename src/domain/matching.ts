import { normalizeDomain, normalizeEmail, normalizeProfileUrl } from './identifiers/addresses.ts'

/** What matching needs to know of a result. */
interface MatchableResult {
  readonly requestId: string | null
  /** The identifiers that its data give: `data.email`, a profile URL, a domain. */
  readonly names: readonly string[]
  /** The place of its input in the job, as the service's description reads it. Default: none. */
  readonly index?: number | null
  /** Two results with the same identifier and content are duplicates. */
  readonly content?: unknown
  /** It reports no match, and nothing else. Default: false. */
  readonly isMiss?: boolean
}

/** What matching needs to know of a job. */
interface MatchableJob {
  /** The members' addresses, profile URLs or domains, in the order of submission; empty for a member without one. */
  readonly identifiers: readonly string[]
  /** From the 202: a list, or a map from the identifier of the member to that of the service. */
  readonly requestIds: unknown
  /** A single lookup that was accepted for later: its only result belongs to it, unless it is named after another address. */
  readonly isSingle?: boolean
  /** The service's description declares that identifiers and results are in the order of submission. */
  readonly isOrdered?: boolean
}

/**
 * Matches the results of a delivery to the members of its job: a result is used for its own input or for none.
 *
 * 1. Evidence of the result itself: an identifier from the 202, the member's own as identifier, the place that the
 *   result gives, or what its data name, such as `data.email`.
 * 2. The order of a list of identifiers as long as the job, then of as many results as members. An order counts
 *   where the service declares it or `isProvenOrder` shows it, and one contradiction disproves it for the delivery:
 *   unnamed results without a contradiction look the same where a service sends them as they become ready.
 * 3. Misses need no order: where each member has a result and all others are named, the misses left belong to the
 *   members left.
 *
 * A contradicted result matches nothing: a guess may put a record into the wrong row, which costs more than a
 * second request. So does an unnamed record that comes twice without a declared order: it may stand in the place of
 * a lost one.
 * @param isCertain false if it is unknown whether the delivery is for this job: then only members' own identifiers
 *   count
 * @returns for each result the index of its member, or null; a duplicate has the index of the first
 */
export function matchResults(
  job: MatchableJob,
  results: readonly MatchableResult[],
  isCertain = true,
): (number | null)[] {
  const { firsts, shared } = findRepetitions(results)
  const unique = results.filter((_, at) => firsts[at] === at)
  const memberIndexes = new Map(
    matchDistinct(job, unique, isCertain, shared).map((member, n) => [unique[n], member] as const),
  )
  return firsts.map((at) => memberIndexes.get(results[at]) ?? null)
}

function matchDistinct(
  job: MatchableJob,
  results: readonly MatchableResult[],
  isCertain: boolean,
  shared: ReadonlySet<string>,
): (number | null)[] {
  const members = indexMembers(job.identifiers)
  const { size, kinds } = members
  if (job.isSingle && isCertain && size === 1 && results.length === 1) {
    // Whatever its identifier, unless that is the address or the profile of another person.
    const kind = kinds[0] === 'domain' ? null : (kinds[0] ?? null)
    return [members.isStranger(results[0]?.requestId ?? null, kind) ? null : 0]
  }
  const evidence = new DataEvidence(members, results)
  const named = isCertain ? membersByRequestId(job.requestIds, members) : new Map<string, number>()
  const indexes = readIndexes(results, size)
  // A delivery with a place that this job does not have is another one's, and its addresses may be contradicted there.
  if (indexes === null && !isCertain) return results.map(() => null)
  const byName = findNamed(results, members, { named, indexes: indexes ?? [], evidence, shared, isCertain })
  const excluded = byName.map((member) => member === CONTRADICTED)
  const claims = new MemberClaims(excluded)
  claims.claim(byName)
  claims.claim(evidence.members)
  if (!isCertain) return claims.memberIndexes

  const listed = membersByListOrder(job.requestIds, members)
  const byList = results.map(({ requestId }) =>
    requestId === null || shared.has(requestId) ? undefined : listed.get(requestId),
  )
  const isProven = (places: readonly (number | undefined)[], known: readonly (number | null | undefined)[]) =>
    job.isOrdered === true ||
    isProvenOrder(places.filter((place, at) => place !== undefined && place === known[at]).length, size)
  if (isProven(byList, evidence.members) && !evidence.contradicts(byList).includes(true)) claims.claim(byList)

  // If the 202 named every member, any other identifier belongs to another job.
  const given = named.size === size ? named : listed.size === size ? listed : null
  const isGiven = (requestId: string | null): boolean =>
    given === null || requestId === null || given.has(requestId)
  const order = orderByNumber(results, size) ?? results.map((_, at) => at)
  const contradicted = evidence.contradicts(order)
  const isOrderTrue =
    shared.size === 0 &&
    indexes !== null &&
    results.length === size &&
    isProven(order, claims.memberIndexes) &&
    isInListOrder(job.requestIds, results, order) &&
    results.every(({ requestId, names }, at) => {
      const place = order[at] ?? -1
      const known = claims.memberIndexes[at] ?? byName[at]
      if (excluded[at] || contradicted[at] || (known !== undefined && known !== place)) return false
      if (!isGiven(requestId) && members.find(requestId) === undefined) return false
      // A member without an identifier (erased, or looked up by name) cannot be contradicted.
      const kind = kinds[place] ?? null
      return ![requestId, ...names].some((name) => members.isStranger(name, kind))
    })
  if (isOrderTrue) {
    // A record twice, with no name, may stand in the place of one that was lost.
    const repeated = job.isOrdered === true ? new Set() : findRepeatedRecords(results)
    claims.claim(results.map((result, at) => (repeated.has(result) ? undefined : order[at])))
  }

  const isOwnMiss = ({ requestId, isMiss }: MatchableResult, at: number): boolean =>
    isMiss === true &&
    byName[at] === undefined &&
    !['email' as const, ...members.present].some((kind) => members.isStranger(requestId, kind)) &&
    isGiven(requestId)
  if (shared.size === 0 && results.length === size) claims.claimRest(results.map(isOwnMiss), kinds)
  return claims.memberIndexes
}

/**
 * The places that results give themselves. Null: one of them is no place of the job, so that it is not known how they count.
 */
function readIndexes(
  results: readonly MatchableResult[],
  size: number,
): readonly (number | undefined)[] | null {
  const indexes = results.map(({ index }) => index ?? undefined)
  const isPlace = (index: number | undefined): boolean =>
    index === undefined || (Number.isInteger(index) && index >= 0 && index < size)
  return indexes.every(isPlace) ? indexes : null
}

/** What the data of results say of their members. */
class DataEvidence {
  /** For each result the one member that its data name. */
  readonly members: readonly (number | undefined)[]
  readonly #kinds: JobMembers['kinds']
  readonly #named: readonly (readonly number[])[]

  constructor(members: JobMembers, results: readonly MatchableResult[]) {
    this.#kinds = members.kinds
    this.#named = results.map(({ names }) => [...new Set(names.flatMap((name) => members.find(name) ?? []))])
    this.members = this.#named.map((named) => (named.length === 1 ? named[0] : undefined))
  }

  /**
   * For each result whether its data name another member than its place. Two rows may be about one person, looked up by different
   * identifiers: naming a member of another kind is no contradiction where that member has a result that names it as well.
   */
  contradicts(places: readonly (number | undefined)[]): boolean[] {
    const confirmed = new Set(
      places.filter((place, at) => place !== undefined && this.#named[at]?.includes(place)),
    )
    return places.map((place, at) => {
      const named = this.#named[at] ?? []
      if (place === undefined || named.length === 0 || named.includes(place)) return false
      const kind = this.#kinds[place] ?? null
      return !named.every((member) => this.#kinds[member] !== kind && confirmed.has(member))
    })
  }
}

const CONTRADICTED = -1

/** For each result the member that its identifier or its place names, unless anything else of it names another one. */
function findNamed(
  results: readonly MatchableResult[],
  members: JobMembers,
  {
    named,
    indexes,
    evidence,
    shared,
    isCertain,
  }: {
    readonly named: ReadonlyMap<string, number>
    readonly indexes: readonly (number | undefined)[]
    readonly evidence: DataEvidence
    readonly shared: ReadonlySet<string>
    readonly isCertain: boolean
  },
): (number | undefined)[] {
  const byId = results.map(({ requestId }) =>
    requestId === null
      ? []
      : [named.get(requestId), members.find(requestId)].filter((member) => member !== undefined),
  )
  const found = results.map(({ requestId }, at) => {
    const index = indexes[at]
    const candidates = new Set([...(index === undefined ? [] : [index]), ...(byId[at] ?? [])])
    const [member] = candidates
    if (candidates.size > 1) return CONTRADICTED
    // The address of a non-member belongs to another person, whose record may name a member all the same.
    const other = index ?? evidence.members[at]
    if (other === undefined || byId[at]?.length !== 0) return member
    const isForeign =
      requestId?.includes('@') === true || members.isStranger(requestId, members.kinds[other] ?? null)
    return isForeign ? CONTRADICTED : member
  })
  const contradicted = evidence.contradicts(found)
  return found.map((member, at) => {
    if (contradicted[at] || member === CONTRADICTED) return CONTRADICTED
    // The place in a job that may be another one names nothing, but contradicts as well.
    if (!isCertain && byId[at]?.length === 0) return undefined
    // An identifier of two results names neither, but still contradicts.
    const isShared = shared.has(results[at]?.requestId ?? '') && indexes[at] === undefined
    return isShared ? undefined : member
  })
}

/** A wrong order stands as often at the places of those that name themselves by chance: once in this many deliveries. */
const CHANCE = 100_000

/**
 * Whether results at their own places prove an order of `members`: a wrong one has them there by chance once in
 * members · (members − 1) · … deliveries. Where all but one are at their places, so is the last.
 */
function isProvenOrder(confirmed: number, members: number): boolean {
  if (confirmed >= members - 1) return true
  let chance = 1
  for (let n = 0; n < confirmed && chance < CHANCE; n++) chance *= members - n
  return chance >= CHANCE
}

/** The matches so far, in order of decreasing evidence. */
class MemberClaims {
  readonly memberIndexes: (number | null)[]
  readonly #taken = new Set<number>()
  readonly #excluded: readonly boolean[]

  /** @param excluded for each result whether it is matched to nothing */
  constructor(excluded: readonly boolean[]) {
    this.memberIndexes = excluded.map(() => null)
    this.#excluded = excluded
  }

  /** Matches each free member to the one result that claims it; of two that claim it, to neither. */
  claim(members: readonly (number | undefined)[]): void {
    /** The one result that claims a member; null: several do. */
    const claimants = new Map<number, number | null>()
    members.forEach((member, at) => {
      if (member === undefined || this.memberIndexes[at] !== null || this.#excluded[at]) return
      if (!this.#taken.has(member)) claimants.set(member, claimants.has(member) ? null : at)
    })
    for (const [member, only] of claimants) {
      if (only === null) continue
      this.memberIndexes[only] = member
      this.#taken.add(member)
    }
  }

  /**
   * Gives the results that are left to the members that are left, in any order, where they say the same of each.
   * @param isAlike whether a result may be given to any member
   * @param kinds of the identifier of each member; a member without one is known by nothing
   */
  claimRest(isAlike: readonly boolean[], kinds: readonly (string | null)[]): void {
    const left = this.memberIndexes.flatMap((member, at) => (member === null ? [at] : []))
    const free = kinds.flatMap((_, member) => (this.#taken.has(member) ? [] : [member]))
    const isNamed = left.length < this.memberIndexes.length && left.length === free.length
    if (!isNamed || !left.every((at) => isAlike[at]) || free.some((member) => kinds[member] === null)) return
    left.forEach((at, n) => (this.memberIndexes[at] = free[n] ?? null))
  }
}

/**
 * `firsts`: for each result the first equal one, usually itself.
 * `shared`: identifiers of two different results, which therefore identify neither.
 */
function findRepetitions(results: readonly MatchableResult[]): {
  firsts: number[]
  shared: Set<string>
} {
  const firsts = results.map((_, at) => at)
  const shared = new Set<string>()
  const byId = Map.groupBy(results.entries(), ([, { requestId, index }]) => requestId ?? index ?? null)
  for (const [id, named] of byId) {
    if (id === null || named.length === 1) continue
    const byContent = Map.groupBy(named, ([, { names, index = null, content }]) =>
      JSON.stringify([names, index, content]),
    )
    for (const same of byContent.values()) for (const [at] of same) firsts[at] = same[0]?.[0] ?? at
    if (typeof id === 'string' && byContent.size > 1) shared.add(id)
  }
  return { firsts, shared }
}

/** The results without a name that have the same record as another one. */
function findRepeatedRecords(results: readonly MatchableResult[]): ReadonlySet<MatchableResult> {
  const unnamed = results.filter(
    ({ requestId, index = null, names, content = null, isMiss }) =>
      requestId === null && index === null && names.length === 0 && content !== null && isMiss !== true,
  )
  const groups = [...Map.groupBy(unnamed, ({ content }) => JSON.stringify(content)).values()]
  return new Set(groups.flatMap((same) => (same.length > 1 ? same : [])))
}

// What the identifiers say that a 202 gave to the members of a job.

/** The members by the identifiers in the 202. An identifier that it used twice names none. */
function membersByRequestId(requestIds: unknown, members: JobMembers): Map<string, number> {
  if (typeof requestIds !== 'object' || requestIds === null || Array.isArray(requestIds)) return new Map()
  const named = new Map<string, number>()
  const twice = new Set<string>()
  for (const [identifier, id] of Object.entries(requestIds)) {
    if (typeof id !== 'string') continue
    if (named.has(id)) twice.add(id)
    const member = members.find(identifier)
    if (member !== undefined) named.set(id, member)
  }
  for (const id of twice) named.delete(id)
  return named
}

/**
 * The members by a list of identifiers, taken to be in the order of submission only if it is as long as the job: a
 * service that rejects two of 100 addresses returns 98. An element that is a member's own identifier names that member, so a
 * misplaced one shows that the list has an order of its own.
 */
function membersByListOrder(requestIds: unknown, members: JobMembers): Map<string, number> {
  const none = new Map<string, number>()
  if (!Array.isArray(requestIds) || requestIds.length !== members.size) return none
  const ids = requestIds as readonly unknown[]
  const listed = new Map<string, number>()
  for (const [index, id] of ids.entries()) {
    if (typeof id !== 'string' || listed.has(id)) return none
    const member = members.find(id)
    if (member === undefined && !id.includes('@')) listed.set(id, index)
    else if (member !== index) return none
  }
  return listed
}

/**
 * Whether results in this order keep that of the identifiers that a 202 listed. A list of fewer than all members names
 * none of them, but shows whether the results keep the order of submission.
 */
function isInListOrder(
  requestIds: unknown,
  results: readonly { readonly requestId: string | null }[],
  order: readonly number[],
): boolean {
  if (!Array.isArray(requestIds)) return true
  const places = new Map<unknown, number>(requestIds.map((id: unknown, index) => [id, index]))
  const listed = results
    .map(({ requestId }, at) => ({ place: order[at] ?? -1, listed: places.get(requestId) }))
    .toSorted((a, b) => a.place - b.place)
    .flatMap(({ listed }) => listed ?? [])
  return listed.every((index, at) => at === 0 || index > (listed[at - 1] ?? -1))
}

/** Identifiers that number the inputs, from 0 or 1, are better evidence of the order than the order of arrival. Pure. */
function orderByNumber(
  results: readonly { readonly requestId: string | null }[],
  members: number,
): number[] | null {
  if (results.length !== members) return null
  const numbers = results.map((result) =>
    result.requestId !== null && /^\d{1,3}$/.test(result.requestId) ? Number(result.requestId) : -1,
  )
  const least = Math.min(...numbers)
  if (least !== 0 && least !== 1) return null
  const order = numbers.map((number) => number - least)
  return new Set(order).size === order.length && Math.max(...order) === order.length - 1 ? order : null
}

/** What a text can identify a member of a job by. */
type IdentifierKind = 'email' | 'profile' | 'domain'

/** The kind of a member's identifier; null: it has none, as one that is looked up by name, or was erased. */
function kindOfIdentifier(identifier: string): IdentifierKind | null {
  if (identifier === '') return null
  if (identifier.includes('@')) return 'email'
  return /linkedin\.com\//i.test(identifier) ? 'profile' : 'domain'
}

/** The members of a job by what identifies them. */
interface JobMembers {
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
function indexMembers(identifiers: readonly string[]): JobMembers {
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
    // The case of a generated profile counts.
    const key = kind === 'profile' ? (toKey(identifier, kind) ?? identifier) : identifier.toLowerCase()
    members.set(key, index)
  }
  const find = (text: string | null): number | undefined => {
    if (text === null || text === '') return undefined
    const kind = kindOfIdentifier(text)
    // Most identifiers of results are no addresses, and most jobs have nothing else.
    if (!present.has(kind)) return undefined
    const plain = kind === 'profile' ? undefined : members.get(text.trim().toLowerCase())
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
