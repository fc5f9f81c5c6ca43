/** Makes a pick once the one before it has ended: a second picker of a run would begin anew with a row that the first has just finished. */
export type PickAlone = <T>(pick: () => Promise<T>) => Promise<T>

export function createPickAlone(): PickAlone {
  let last: Promise<unknown> = Promise.resolve()
  return (pick) => {
    const next = last.then(pick)
    last = next.catch(() => {})
    return next
  }
}
