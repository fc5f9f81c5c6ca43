/** Reading may take one part in so many of the time. */
const MAX_COST = 10

export interface Cached<T> {
  (): Promise<T>
  /** The next one reads: what was read is no longer so. */
  forget(): void
}

/**
 * Reads something that many ask for, once for all of them, and not again before it is a second old, or ten times as old
 * as reading took: however many look on, and however large the tables, the database is left alone most of the time.
 */
export function cached<T>(
  read: () => Promise<T>,
  {
    least = 1_000,
    cost = MAX_COST,
    now = () => performance.now(),
  }: { readonly least?: number; readonly cost?: number; readonly now?: () => number } = {},
): Cached<T> {
  let latest: { readonly value: Promise<T>; until: number } | null = null
  const ask = (): Promise<T> => {
    if (latest !== null && now() < latest.until) return latest.value
    const began = now()
    const entry = { value: read(), until: Number.POSITIVE_INFINITY }
    latest = entry
    entry.value.then(
      () => {
        entry.until = now() + Math.max(least, cost * (now() - began))
      },
      () => {
        entry.until = 0
      },
    )
    return entry.value
  }
  return Object.assign(ask, {
    forget: () => {
      latest = null
    },
  })
}
