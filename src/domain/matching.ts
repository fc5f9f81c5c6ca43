/** One result of a delivery, as far as matching is concerned. */
export interface MatchableResult {
  readonly requestId: string | null
  /** `data.email`, if there is one. */
  readonly email: string | null
}

/**
 * Ties the results of a delivery to the members of its job, each to at most one. In this order, because each is
 * weaker than the one before: the identifiers that the 202 gave, the email itself as identifier, `data.email`, and
 * the place in the list, where the counts are equal and nothing that is known contradicts.
 *
 * @param emails the members' addresses, in the order of submission
 * @param requestIds what the 202 gave: a list in the order of submission, or a map from address to identifier
 * @param byPlace false where the delivery names another job than ours: then its order says nothing
 * @returns for each result the member's index, or null when it matches nothing
 */
export function matchResults(
  emails: readonly string[],
  requestIds: unknown,
  results: readonly MatchableResult[],
  byPlace = true,
): (number | null)[] {
  const byEmail = new Map(emails.map((email, index) => [email.toLowerCase(), index]))
  const byRequestId = indexRequestIds(requestIds, byEmail)
  const places = results.map((): number | null => null)
  const taken = new Set<number>()
  const place = (find: (result: MatchableResult, at: number) => number | undefined): void => {
    results.forEach((result, at) => {
      if (places[at] !== null) return
      const index = find(result, at)
      if (index === undefined || index >= emails.length || taken.has(index)) return
      places[at] = index
      taken.add(index)
    })
  }
  const emailIndex = (text: string | null): number | undefined =>
    text === null ? undefined : byEmail.get(text.trim().toLowerCase())

  place((result) => (result.requestId === null ? undefined : byRequestId.get(result.requestId)))
  place((result) => emailIndex(result.requestId))
  place((result) => emailIndex(result.email))

  if (byPlace && results.length === emails.length) {
    const order = numberedFrom(results) ?? results.map((_, at) => at)
    const contradicted = results.some(
      (result, at) =>
        (places[at] !== null && places[at] !== order[at]) ||
        (places[at] === null && result.email !== null && emailIndex(result.email) !== order[at]),
    )
    if (!contradicted) place((_, at) => order[at])
  }
  return places
}

function indexRequestIds(requestIds: unknown, byEmail: ReadonlyMap<string, number>): Map<string, number> {
  if (Array.isArray(requestIds))
    return new Map(requestIds.flatMap((id, index) => (typeof id === 'string' ? [[id, index] as const] : [])))
  if (typeof requestIds !== 'object' || requestIds === null) return new Map()
  return new Map(
    Object.entries(requestIds).flatMap(([email, id]) => {
      const index = byEmail.get(email.toLowerCase())
      return typeof id === 'string' && index !== undefined ? [[id, index] as const] : []
    }),
  )
}

/** Identifiers that count the inputs, from 0 or from 1, say the place better than the order of arrival does. */
function numberedFrom(results: readonly MatchableResult[]): number[] | null {
  const numbers = results.map((result) =>
    result.requestId !== null && /^\d{1,3}$/.test(result.requestId) ? Number(result.requestId) : -1,
  )
  const least = Math.min(...numbers)
  if (least !== 0 && least !== 1) return null
  const order = numbers.map((number) => number - least)
  return new Set(order).size === order.length && Math.max(...order) === order.length - 1 ? order : null
}
