/** A wrong order stands as often at the places of those that name themselves by chance: once in this many deliveries. */
const CHANCE = 100_000

/**
 * Whether results at their own places prove an order of `members`: a wrong one has them there by chance once in
 * members · (members − 1) · … deliveries. Where all but one are at their places, so is the last. Pure.
 */
export function isProvenOrder(confirmed: number, members: number): boolean {
  if (confirmed >= members - 1) return true
  let chance = 1
  for (let n = 0; n < confirmed && chance < CHANCE; n++) chance *= members - n
  return chance >= CHANCE
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
