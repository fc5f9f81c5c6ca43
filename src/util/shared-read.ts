/**
 * A read for many callers at once. Each gets a result that was read after its call; those that call while one is under way share the
 * next.
 */
export function sharedRead<T>(read: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> | null = null
  let next: Promise<T> | null = null
  const start = (): Promise<T> => {
    next = null
    const started = read()
    current = started.then(
      () => (current = null),
      () => (current = null),
    )
    return started
  }
  return () => {
    if (current === null) return start()
    next ??= current.then(start)
    return next
  }
}
