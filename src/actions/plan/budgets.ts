/** Lookups that a service is called with. */
export interface StepEstimate {
  /** Of rows that come to it whatever the services before it answer. */
  readonly certain: number
  /** If every row goes on to the last service. */
  readonly max: number
}

/** The lookups of a source at each of its services, in their order. */
export interface WantedChain {
  /** The services, by their place in `PlannedBudgets.parties`. */
  readonly parties: readonly number[]
  readonly steps: readonly StepEstimate[]
  /** The most that the source may spend at all of them. */
  readonly budget: number
  /** What a lookup of each takes of the budgets of the source and of all. Default: one. */
  readonly charges?: readonly number[]
}

export interface PlannedBudgets {
  /** The most lookups of each service. */
  readonly parties: readonly number[]
  /** The most that all may spend together. */
  readonly total: number
}

/** What is assumed of services that spend before: `certain` is left of a budget though they need the most, and `max` as they need the least. */
const SPENT_BEFORE = { certain: 'max', max: 'certain' } as const
type Bound = keyof typeof SPENT_BEFORE
const BOUNDS = Object.keys(SPENT_BEFORE) as Bound[]
type ByBound<Value> = Record<Bound, Value>
const byBound = <Value>(toValue: (bound: Bound) => Value): ByBound<Value> => ({
  certain: toValue('certain'),
  max: toValue('max'),
})

/**
 * What budgets leave of these, for each source. A budget that several share is used by the services that come first: these are
 * charged while the table is read, and later ones when rows are handed on to them. A row that an earlier service's budget does not
 * pay does not come to a later one; those with a stored answer come all the same. Pure.
 */
export function limitChains(chains: readonly WantedChain[], budgets: PlannedBudgets): StepEstimate[][] {
  const limited = chains.map((): StepEstimate[] => [])
  const pools = byBound(() => new Pool(chains, budgets))
  // The share of the rows that every earlier budget may pay.
  const reach = chains.map(() => 1)
  const places = Math.max(0, ...chains.map(({ steps }) => steps.length))
  for (let place = 0; place < places; place++) {
    const wanted = chains.map(({ steps }, n): StepEstimate => {
      const { certain, max } = steps[place] ?? NO_LOOKUPS_AT_ALL
      return { certain, max: certain + (max - certain) * (reach[n] ?? 0) }
    })
    const paid = byBound((bound) =>
      pools[bound].pay(
        place,
        wanted.map((one) => one[bound]),
      ),
    )
    for (const bound of BOUNDS) pools[bound].take(place, paid[SPENT_BEFORE[bound]])
    for (const [n, { steps }] of chains.entries()) {
      if (steps[place] === undefined) continue
      const [certain, max] = [paid.certain[n] ?? 0, paid.max[n] ?? 0]
      // The least that the rows need: further lookups of a cascade may not be needed.
      reach[n] = (reach[n] ?? 0) * paidShare(wanted[n]?.certain ?? 0, certain)
      limited[n]?.push({
        certain: Math.round(Math.min(certain, max)),
        max: Math.round(Math.max(certain, max)),
      })
    }
  }
  return limited
}

const NO_LOOKUPS_AT_ALL: StepEstimate = { certain: 0, max: 0 }

const paidShare = (wanted: number, paid: number): number => (paid >= wanted ? 1 : paid / wanted)

/** What is left of the budgets. */
class Pool {
  readonly #chains: readonly WantedChain[]
  readonly #sources: number[]
  readonly #parties: number[]
  #total: number

  constructor(chains: readonly WantedChain[], { parties, total }: PlannedBudgets) {
    this.#chains = chains
    this.#sources = chains.map(({ budget }) => budget)
    this.#parties = [...parties]
    this.#total = total
  }

  /** The lookups at a place of each order that are paid: sources share what is left evenly, as far as they need it. */
  pay(place: number, wanted: readonly number[]): number[] {
    const paid = wanted.map(() => 0)
    for (const isShared of [true, false]) {
      const spent = this.#sum(place, paid)
      let total = this.#total - spent.total
      const parties = this.#parties.map((left, party) => left - (spent.parties[party] ?? 0))
      for (const [n, want] of wanted.entries()) {
        const party = this.#chains[n]?.parties[place]
        if (party === undefined) continue
        const charge = this.#charge(n, place)
        const others = this.#chains.slice(n)
        const shareOf = (left: number, sharing: number): number =>
          isShared ? left / Math.max(1, sharing) : left
        const added = Math.max(
          0,
          Math.min(
            want - (paid[n] ?? 0),
            shareOf(parties[party] ?? 0, others.filter((one) => one.parties[place] === party).length),
            shareOf(total, others.length) / charge,
            (this.#sources[n] ?? 0) / charge - (paid[n] ?? 0),
          ),
        )
        paid[n] = (paid[n] ?? 0) + added
        parties[party] = (parties[party] ?? 0) - added
        total -= added * charge
      }
    }
    return paid
  }

  take(place: number, paid: readonly number[]): void {
    const spent = this.#sum(place, paid)
    this.#total = Math.max(0, this.#total - spent.total)
    for (const [party, lookups] of spent.parties.entries())
      this.#parties[party] = Math.max(0, (this.#parties[party] ?? 0) - lookups)
    for (const [n, amount] of spent.sources.entries())
      this.#sources[n] = Math.max(0, (this.#sources[n] ?? 0) - amount)
  }

  #charge(chain: number, place: number): number {
    return this.#chains[chain]?.charges?.[place] ?? 1
  }

  #sum(place: number, paid: readonly number[]) {
    const parties = this.#parties.map(() => 0)
    const sources = paid.map((lookups, n) => {
      const party = this.#chains[n]?.parties[place] ?? -1
      if (party >= 0) parties[party] = (parties[party] ?? 0) + lookups
      return lookups * this.#charge(n, place)
    })
    return { parties, sources, total: sources.reduce((sum, amount) => sum + amount, 0) }
  }
}
