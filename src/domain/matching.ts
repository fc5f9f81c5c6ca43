import { normalizeEmail } from './identifiers/email.ts'

/** What matching needs to know of a result. */
interface MatchableResult {
  readonly requestId: string | null
  /** `data.email`, if present. */
  readonly email: string | null
  /** Two results with the same identifier and content are duplicates. */
  readonly content?: unknown
  /** It reports no match, and nothing else. Default: false. */
  readonly isMiss?: boolean
}

/** What matching needs to know of a job. */
interface MatchableJob {
  /** The members' addresses in the order of submission; empty for a member without one. */
  readonly emails: readonly string[]
  /** From the 202: a list, or a map from address to identifier. */
  readonly requestIds: unknown
  /** A single lookup that was accepted for later: its only result belongs to it, unless it is named after another address. */
  readonly isSingle?: boolean
  /** The service's description declares that identifiers and results are in the order of submission. */
  readonly isOrdered?: boolean
}

/**
 * Matches the results of a delivery to the members of its job: a result is used for its own input or for none.
 *
 * Explicit evidence comes first: an identifier from the 202 for an address, the address as identifier, or `data.email`.
 * Then order: that of a list of identifiers as long as the job, and last the order of the results if there are as many
 * as members. An order counts where the service declares it, or where enough results name their own member that chance
 * cannot have put them there (`isProvenOrder`); one contradiction in the delivery disproves it for all of its results.
 * Results that name nothing and contradict nothing prove nothing: a service that sends them as they become ready looks
 * exactly like that. Only misses need no order: where there is a result for each member and all others are named, the
 * misses that are left are those of the members that are left.
 *
 * Contradicted results are matched to nothing: an identifier of one member beside the `data.email` of another, or two
 * different results for one member. Taking the weaker of two statements would be a guess, and a record in the wrong row
 * costs more than a second request.
 *
 * @param isCertain false if it is unknown whether the delivery is for this job: then only addresses count
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
  const { emails } = job
  const memberOf = indexAddresses(emails)
  if (job.isSingle && isCertain && emails.length === 1 && results.length === 1) {
    // Whatever its identifier, unless that is the address of another person.
    const requestId = results[0]?.requestId ?? ''
    return [emails[0] !== '' && requestId.includes('@') && memberOf(requestId) === undefined ? null : 0]
  }
  const named = isCertain ? membersByRequestId(job.requestIds, memberOf) : new Map<string, number>()
  const byData = results.map(({ email }) => memberOf(email))
  const byName = results.map(({ requestId }, at) =>
    requestId === null
      ? undefined
      : memberByName(requestId, [named.get(requestId), memberOf(requestId)], byData[at], shared),
  )

  const excluded = byName.map((member) => member === CONTRADICTED)
  const claims = new MemberClaims(excluded)
  claims.claim(byName)
  claims.claim(byData)
  if (!isCertain) return claims.memberIndexes

  const listed = membersByListOrder(job.requestIds, emails.length, memberOf)
  const byList = results.map(({ requestId }) =>
    requestId === null || shared.has(requestId) ? undefined : listed.get(requestId),
  )
  const isProven = (places: readonly (number | undefined)[], known: readonly (number | null | undefined)[]) =>
    job.isOrdered === true ||
    isProvenOrder(
      places.filter((place, at) => place !== undefined && place === known[at]).length,
      emails.length,
    )
  const isListTrue =
    isProven(byList, byData) &&
    byList.every((place, at) => place === undefined || byData[at] === undefined || byData[at] === place)
  if (isListTrue) claims.claim(byList)

  // If the 202 named every member, any other identifier belongs to another job.
  const given = named.size === emails.length ? named : listed.size === emails.length ? listed : null
  const order = orderByNumber(results, emails.length) ?? results.map((_, at) => at)
  const isOrderTrue =
    shared.size === 0 &&
    results.length === emails.length &&
    isProven(order, claims.memberIndexes) &&
    isInListOrder(job.requestIds, results, order) &&
    results.every(({ requestId, email }, at) => {
      const place = order[at] ?? -1
      const known = claims.memberIndexes[at] ?? byName[at] ?? byData[at]
      if (excluded[at] || (known !== undefined && known !== place)) return false
      if (given !== null && requestId !== null && !given.has(requestId) && memberOf(requestId) === undefined)
        return false
      // A member without an address (erased, or looked up by another identifier) cannot be contradicted.
      if (emails[place] === '') return true
      return isKnownOrNone(requestId) && isKnownOrNone(email)
    })
  if (isOrderTrue) claims.claim(order)

  const isOwnMiss = ({ requestId, isMiss }: MatchableResult, at: number): boolean =>
    isMiss === true &&
    byName[at] === undefined &&
    isKnownOrNone(requestId) &&
    (given === null || requestId === null || given.has(requestId))
  if (shared.size === 0 && results.length === emails.length) claims.claimRest(results.map(isOwnMiss), emails)
  return claims.memberIndexes

  function isKnownOrNone(text: string | null): boolean {
    return text === null || !text.includes('@') || memberOf(text) !== undefined
  }
}

const CONTRADICTED = -1

/** The member that an identifier names: of the candidates, unless the result's own data name another one. */
function memberByName(
  requestId: string,
  candidates: readonly (number | undefined)[],
  byData: number | undefined,
  shared: ReadonlySet<string>,
): number | undefined {
  const members = new Set(candidates.filter((member) => member !== undefined))
  const [member] = members
  // The address of a non-member belongs to another person, whose record may name a member all the same.
  if (member === undefined) return requestId.includes('@') && byData !== undefined ? CONTRADICTED : undefined
  if (members.size > 1 || (byData !== undefined && byData !== member)) return CONTRADICTED
  // An identifier of two results names neither, but still contradicts.
  return shared.has(requestId) ? undefined : member
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
   * @param emails one of each member; a member without one is known by nothing
   */
  claimRest(isAlike: readonly boolean[], emails: readonly string[]): void {
    const left = this.memberIndexes.flatMap((member, at) => (member === null ? [at] : []))
    const free = emails.flatMap((_, member) => (this.#taken.has(member) ? [] : [member]))
    const isNamed = left.length < this.memberIndexes.length && left.length === free.length
    if (!isNamed || !left.every((at) => isAlike[at]) || free.some((member) => emails[member] === '')) return
    left.forEach((at, n) => (this.memberIndexes[at] = free[n] ?? null))
  }
}

/** Finds the member with an address, regardless of case and of the form of its host. */
function indexAddresses(emails: readonly string[]): (text: string | null) => number | undefined {
  const members = new Map(
    emails.flatMap((email, index) => (email === '' ? [] : [[email.toLowerCase(), index] as const])),
  )
  return (text) => {
    if (text === null || !text.includes('@')) return undefined
    const plain = members.get(text.trim().toLowerCase())
    if (plain !== undefined) return plain
    const email = normalizeEmail(text)
    return email?.ok ? members.get(email.key) : undefined
  }
}

/** The members by the identifiers in the 202. An identifier that it used twice names none. */
function membersByRequestId(
  requestIds: unknown,
  memberOf: (text: string) => number | undefined,
): Map<string, number> {
  if (typeof requestIds !== 'object' || requestIds === null || Array.isArray(requestIds)) return new Map()
  const named = new Map<string, number>()
  const twice = new Set<string>()
  for (const [email, id] of Object.entries(requestIds)) {
    if (typeof id !== 'string') continue
    if (named.has(id)) twice.add(id)
    const member = memberOf(email)
    if (member !== undefined) named.set(id, member)
  }
  for (const id of twice) named.delete(id)
  return named
}

/**
 * The members by a list of identifiers, taken to be in the order of submission only if it is as long as the job: a
 * service that rejects two of 100 addresses returns 98. An element that is an address names that address, so a misplaced
 * one shows that the list has an order of its own.
 */
function membersByListOrder(
  requestIds: unknown,
  size: number,
  memberOf: (text: string) => number | undefined,
): Map<string, number> {
  const none = new Map<string, number>()
  if (!Array.isArray(requestIds) || requestIds.length !== size) return none
  const ids = requestIds as readonly unknown[]
  const listed = new Map<string, number>()
  for (const [index, id] of ids.entries()) {
    if (typeof id !== 'string' || listed.has(id)) return none
    if (!id.includes('@')) listed.set(id, index)
    else if (memberOf(id) !== index) return none
  }
  return listed
}

/**
 * Whether results in this order keep that of the identifiers that a 202 listed. A list of fewer than all members names
 * none of them, but shows whether the results keep the order of submission.
 */
function isInListOrder(
  requestIds: unknown,
  results: readonly MatchableResult[],
  order: readonly number[],
): boolean {
  if (!Array.isArray(requestIds)) return true
  const places = new Map<unknown, number>(requestIds.map((id: unknown, index) => [id, index]))
  const listed = results
    .map(({ requestId }, at) => ({ place: order[at] ?? -1, listed: places.get(requestId) }))
    .toSorted((a, b) => a.place - b.place)
    .flatMap((one) => one.listed ?? [])
  return listed.every((index, at) => at === 0 || index > (listed[at - 1] ?? -1))
}

/**
 * `firsts`: for each result the first equal one, usually itself.
 * `shared`: identifiers of two different results, which therefore identify neither.
 */
function findRepetitions(results: readonly MatchableResult[]): {
  firsts: number[]
  shared: Set<string>
} {
  const byId = new Map<string, Map<string, number>>()
  const shared = new Set<string>()
  const firsts = results.map(({ requestId, email, content }, at) => {
    if (requestId === null) return at
    const text = JSON.stringify([email, content])
    const before = byId.get(requestId)
    if (before === undefined) {
      byId.set(requestId, new Map([[text, at]]))
      return at
    }
    const first = before.get(text)
    if (first !== undefined) return first
    before.set(text, at)
    shared.add(requestId)
    return at
  })
  return { firsts, shared }
}

/** Identifiers that number the inputs, from 0 or 1, are better evidence of the order than the order of arrival. */
function orderByNumber(results: readonly MatchableResult[], members: number): number[] | null {
  if (results.length !== members) return null
  const numbers = results.map((result) =>
    result.requestId !== null && /^\d{1,3}$/.test(result.requestId) ? Number(result.requestId) : -1,
  )
  const least = Math.min(...numbers)
  if (least !== 0 && least !== 1) return null
  const order = numbers.map((number) => number - least)
  return new Set(order).size === order.length && Math.max(...order) === order.length - 1 ? order : null
}
