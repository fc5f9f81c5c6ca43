import type { JobMembers } from './job-members.ts'

// What the identifiers say that a 202 gave to the members of a job.

/** The members by the identifiers in the 202. An identifier that it used twice names none. */
export function membersByRequestId(requestIds: unknown, members: JobMembers): Map<string, number> {
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
export function membersByListOrder(requestIds: unknown, members: JobMembers): Map<string, number> {
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
export function isInListOrder(
  requestIds: unknown,
  results: readonly { readonly requestId: string | null }[],
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

/** Identifiers that number the inputs, from 0 or 1, are better evidence of the order than the order of arrival. Pure. */
export function orderByNumber(
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
