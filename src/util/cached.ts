/** Spend at most 1/10 of the time on reading. */
const MAX_COST = 10

export interface CachedRead<T> {
  (): Promise<T>
  /** Makes the next call read again. */
  invalidate(): void
}

/**
 * Shares one read among concurrent callers, and repeats it only when its result is a second old and ten times older than
 * the read took: however many callers and however large the tables, the database is idle most of the time.
 */
export function cache<T>(
  read: () => Promise<T>,
  {
    minAgeMs = 1_000,
    cost = MAX_COST,
    now = () => performance.now(),
  }: { readonly minAgeMs?: number; readonly cost?: number; readonly now?: () => number } = {},
): CachedRead<T> {
  let latest: { readonly value: Promise<T>; until: number } | null = null
  const get = (): Promise<T> => {
    if (latest !== null && now() < latest.until) return latest.value
    const began = now()
    const entry = { value: read(), until: Number.POSITIVE_INFINITY }
    latest = entry
    entry.value.then(
      () => {
        entry.until = now() + Math.max(minAgeMs, cost * (now() - began))
      },
      () => {
        entry.until = 0
      },
    )
    return entry.value
  }
  return Object.assign(get, {
    invalidate: () => {
      latest = null
    },
  })
}
