import { normalizeEmail } from './identifiers/email.ts'

/** One result of a delivery, as far as matching is concerned. */
export interface MatchableResult {
  readonly requestId: string | null
  /** `data.email`, if there is one. */
  readonly email: string | null
  /** What it holds. Two results with one identifier and the same content are one result, repeated. */
  readonly content?: unknown
}

/** A job, as far as matching is concerned. */
export interface MatchableJob {
  /** The members' addresses, in the order of submission; empty for a member that has none. */
  readonly emails: readonly string[]
  /** What the 202 gave: a list, or a map from address to identifier. */
  readonly requestIds: unknown
  /** A single lookup that was accepted for later: its only result is its own, whatever it is called. */
  readonly isSingle?: boolean
}

/**
 * Matches the results of a delivery to the members of its job: a result is used for its own input or for none.
 *
 * The service may say whose a result is: by an identifier that the 202 gave for an address, by the address as
 * identifier, or by `data.email`. Only then an order is believed: that of a list of identifiers as long as the job,
 * and last the order of the results, where there are as many as members. An order is an inference, so that one
 * contradiction in the delivery disproves it for all of its results.
 *
 * What is contradicted is matched to nothing: an identifier of one member beside the `data.email` of another, or two
 * different results for one member. To take the weaker of two statements would be a guess, and a record in the wrong
 * row costs more than a second request.
 *
 * @param isCertain false where it is unknown whether the delivery is for this job: only addresses count then
 * @returns for each result the member's index, or null when it matches nothing; a repeated result has that of the first
 */
export function matchResults(
  job: MatchableJob,
  results: readonly MatchableResult[],
  isCertain = true,
): (number | null)[] {
  const { firsts, shared } = findRepetitions(results)
  const unique = results.filter((_, at) => firsts[at] === at)
  const places = new Map(
    matchDistinct(job, unique, isCertain, shared).map((place, n) => [unique[n], place] as const),
  )
  return firsts.map((at) => places.get(results[at]) ?? null)
}

function matchDistinct(
  job: MatchableJob,
  results: readonly MatchableResult[],
  isCertain: boolean,
  shared: ReadonlySet<string>,
): (number | null)[] {
  const { emails } = job
  if (job.isSingle && isCertain && emails.length === 1 && results.length === 1) return [0]
  const memberOf = indexAddresses(emails)
  const named = isCertain ? membersByRequestId(job.requestIds, memberOf) : new Map<string, number>()
  const byData = results.map(({ email }) => memberOf(email))
  const byName = results.map(({ requestId }, at) => {
    if (requestId === null) return undefined
    const said = [named.get(requestId), memberOf(requestId)]
    const members = new Set(said.filter((member) => member !== undefined))
    const [member] = members
    // An address that is no member's is of somebody else, whose record may name a member all the same.
    if (member === undefined)
      return requestId.includes('@') && byData[at] !== undefined ? CONTRADICTED : undefined
    if (members.size > 1 || (byData[at] !== undefined && byData[at] !== member)) return CONTRADICTED
    // Given to two results it names neither, but it contradicts all the same.
    return shared.has(requestId) ? undefined : member
  })

  const claims = new MemberClaims(results.length)
  byName.forEach((member, at) => {
    if (member === CONTRADICTED) claims.exclude(at)
  })
  claims.claim(byName)
  claims.claim(byData)
  if (!isCertain) return claims.memberIndexes

  const listed = membersByListOrder(job.requestIds, emails.length, memberOf)
  const byList = results.map(({ requestId }) =>
    requestId === null || shared.has(requestId) ? undefined : listed.get(requestId),
  )
  const isListTrue = byList.every(
    (place, at) => place === undefined || byData[at] === undefined || byData[at] === place,
  )
  if (isListTrue) claims.claim(byList)

  // Where the 202 named every member, an identifier that it did not give is of another job.
  const given = named.size === emails.length ? named : listed.size === emails.length ? listed : null
  const order = orderByNumber(results) ?? results.map((_, at) => at)
  const isOrderTrue =
    shared.size === 0 &&
    results.length === emails.length &&
    results.every(({ requestId, email }, at) => {
      const place = order[at] ?? -1
      const known = claims.memberIndexes[at] ?? byName[at] ?? byData[at]
      if (claims.isExcluded(at) || (known !== undefined && known !== place)) return false
      if (given !== null && requestId !== null && !given.has(requestId) && memberOf(requestId) === undefined)
        return false
      // A member without an address, erased or asked for by another identifier, is contradicted by none.
      if (emails[place] === '') return true
      return isKnownOrNone(requestId) && isKnownOrNone(email)
    })
  if (isOrderTrue) claims.claim(order)
  return claims.memberIndexes

  function isKnownOrNone(text: string | null): boolean {
    return text === null || !text.includes('@') || memberOf(text) !== undefined
  }
}

const CONTRADICTED = -1

/** Which result is whose, in the order in which it is established. */
class MemberClaims {
  readonly memberIndexes: (number | null)[]
  readonly #taken = new Set<number>()
  readonly #excluded = new Set<number>()

  constructor(results: number) {
    this.memberIndexes = Array.from({ length: results }, () => null)
  }

  /** This result is matched to nothing. */
  exclude(at: number): void {
    this.#excluded.add(at)
  }

  isExcluded(at: number): boolean {
    return this.#excluded.has(at)
  }

  /** Gives each free member the one result that claims it; where two claim it, neither has it. */
  claim(members: readonly (number | undefined)[]): void {
    const claimants = new Map<number, number[]>()
    members.forEach((member, at) => {
      if (member === undefined || this.memberIndexes[at] !== null || this.#excluded.has(at)) return
      if (!this.#taken.has(member)) claimants.set(member, [...(claimants.get(member) ?? []), at])
    })
    for (const [member, results] of claimants) {
      const [only] = results
      if (only === undefined || results.length > 1) continue
      this.memberIndexes[only] = member
      this.#taken.add(member)
    }
  }
}

/** The member whose address a text is, whatever its case or the form of its host. */
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

/** The members by the identifiers that the 202 gave for their addresses. One that it gave twice names none. */
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
 * The members by a list of identifiers, which is believed to be in the order of submission only when it is as long as
 * the job: a service that refuses two of 100 addresses gives 98. An element that is an address means that address, so
 * that one in another's place shows that the list has an order of its own.
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
 * `firsts`: for each result the first that is the same, mostly itself.
 * `shared`: identifiers of two different results, which therefore say nothing of either.
 */
function findRepetitions(results: readonly MatchableResult[]): {
  firsts: number[]
  shared: Set<string>
} {
  const byId = new Map<string, number[]>()
  const shared = new Set<string>()
  const textOf = (at: number): string => JSON.stringify([results[at]?.email, results[at]?.content])
  const firsts = results.map(({ requestId }, at) => {
    if (requestId === null) return at
    const before = byId.get(requestId)
    if (before === undefined) {
      byId.set(requestId, [at])
      return at
    }
    const text = textOf(at)
    const first = before.find((other) => textOf(other) === text)
    if (first !== undefined) return first
    before.push(at)
    shared.add(requestId)
    return at
  })
  return { firsts, shared }
}

/** Identifiers that count the inputs, from 0 or from 1, say the place better than the order of arrival does. */
function orderByNumber(results: readonly MatchableResult[]): number[] | null {
  const numbers = results.map((result) =>
    result.requestId !== null && /^\d{1,3}$/.test(result.requestId) ? Number(result.requestId) : -1,
  )
  const least = Math.min(...numbers)
  if (least !== 0 && least !== 1) return null
  const order = numbers.map((number) => number - least)
  return new Set(order).size === order.length && Math.max(...order) === order.length - 1 ? order : null
}
