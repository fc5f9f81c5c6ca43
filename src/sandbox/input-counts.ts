/** How often one input was asked. */
export interface InputCounts {
  /** Calls that named it, however they were answered. */
  tried: number
  /** Single lookups answered 200 with a record, 404 or 422. */
  single: number
  /** Jobs accepted with it. */
  bulk: number
  /** Single lookups done whose answer did not reach the caller: the connection was gone. */
  unanswered: number
}

export interface InputStats {
  readonly distinct: number
  readonly tried: number
  readonly asked_singly: number
  readonly asked_in_bulk: number
  readonly unanswered: number
  /** The most that one input was asked, singly and in bulk. */
  readonly max_asked: number
  readonly asked_more_than_once: number
  /** The most that one input cost: asked or unanswered. */
  readonly max_paid: number
  readonly paid_more_than_once: number
  /** The inputs asked or paid more than once, at most 1,000 of them. */
  readonly repeated: Readonly<Record<string, InputCounts>>
  /** Every input, on demand. */
  readonly all?: Readonly<Record<string, InputCounts>>
}

export type Work = Exclude<keyof InputCounts, 'tried'>

const repeatedListed = 1_000

export function createInputCounts() {
  const counts = new Map<string, InputCounts>()
  const of = (key: string): InputCounts => {
    let found = counts.get(key)
    if (found === undefined) {
      found = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
      counts.set(key, found)
    }
    return found
  }
  return {
    /** Counts a try of each input; gives how often the first of them was tried before. */
    tried(keys: readonly string[]): number {
      const before = keys[0] === undefined ? 0 : of(keys[0]).tried
      for (const key of keys) of(key).tried += 1
      return before
    },
    done(keys: readonly string[], work: Work): void {
      for (const key of keys) of(key)[work] += 1
    },
    snapshot(withAll: boolean): InputStats {
      const sum = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
      const more = { max_asked: 0, asked_more_than_once: 0, max_paid: 0, paid_more_than_once: 0 }
      const repeated: [string, InputCounts][] = []
      for (const [key, one] of counts) {
        for (const name of ['tried', 'single', 'bulk', 'unanswered'] as const) sum[name] += one[name]
        const asked = one.single + one.bulk
        const paid = asked + one.unanswered
        more.max_asked = Math.max(more.max_asked, asked)
        more.max_paid = Math.max(more.max_paid, paid)
        if (asked > 1) more.asked_more_than_once += 1
        if (paid > 1) more.paid_more_than_once += 1
        if (paid > 1 && repeated.length < repeatedListed) repeated.push([key, one])
      }
      return {
        distinct: counts.size,
        tried: sum.tried,
        asked_singly: sum.single,
        asked_in_bulk: sum.bulk,
        unanswered: sum.unanswered,
        ...more,
        repeated: Object.fromEntries(repeated),
        ...(withAll && { all: Object.fromEntries(counts) }),
      }
    },
  }
}
