/** What several services have answered about rows so far: for each of them, in their order. */
export interface AnswersSoFar {
  /** Whether the service had a record that the source takes. Null: it was not called. */
  readonly found: readonly (boolean | null)[]
  /** Lookups that these rows took at each service. */
  readonly lookups: readonly number[]
  readonly rows: number
}

/** How likely a service's answers are, by those so far. */
export interface AnswerShares {
  /** Of the rows that it was called for: those that it found. */
  readonly found: number
  /** Of the rows found: those that went on, because a wanted cell was still blank. Null: not known yet. */
  readonly foundOnward: number | null
  /** Lookups of a row: more than one in a cascade. */
  readonly lookupsPerRow: number
  /** The rows that this is known from. */
  readonly observations: number
}

/** With fewer rows that have come the same way, all rows that a service was called for say more. */
const ENOUGH_ROWS = 30

/**
 * The shares of a service at a place of the order: by the rows that came to it past every service before, where there are enough,
 * because it knows fewer of those that the others miss. Null: it was never called. Pure.
 */
export function toAnswerShares(
  history: readonly AnswersSoFar[],
  place: number,
  when: 'miss' | 'blank' | null,
): AnswerShares | null {
  const called = history.filter(({ found }) => found[place] != null)
  const isPast = ({ found }: AnswersSoFar): boolean => found.slice(0, place).every((one) => one !== null)
  const past = called.filter(isPast)
  const [own, all] = [past, called].map((ones) => sumRows(ones, () => true))
  const used = own !== undefined && (own >= ENOUGH_ROWS || own === all) ? past : called
  const observations = sumRows(used, () => true)
  if (observations === 0) return null
  const found = sumRows(used, (one) => one.found[place] === true)
  const wentOn = sumRows(used, (one) => one.found[place] === true && isCalledAfter(one, place))
  // None of them: the source had no service after this one for blank cells until now.
  const onward = when !== 'blank' ? 0 : wentOn > 0 ? wentOn / found : null
  const lookups = used.reduce((sum, one) => sum + (one.lookups[place] ?? 0), 0)
  return {
    found: found / observations,
    foundOnward: onward,
    lookupsPerRow: Math.max(1, lookups / observations),
    observations,
  }
}

const isCalledAfter = ({ found }: AnswersSoFar, place: number): boolean =>
  found.slice(place + 1).some((one) => one !== null)

const sumRows = (history: readonly AnswersSoFar[], isCounted: (one: AnswersSoFar) => boolean): number =>
  history.reduce((sum, one) => sum + (isCounted(one) ? one.rows : 0), 0)

/**
 * What is known, before a run, of how a row comes to a service: a letter for each service before it.
 * - `m`: a stored answer sends it on, or it has no input for that service
 * - `f`: a record is stored; it goes on if a wanted cell stays blank
 * - `c`: that service is called first
 */
export type Way = string

/** The lookups of a source that one service would be called with. */
export interface StepCounts {
  /** Of rows that come to it the same way: a first lookup each. */
  readonly byWay: ReadonlyMap<Way, number>
  /** Further lookups of a cascade, at most. */
  readonly further: number
}

/** Lookups that a service is called with. */
export interface StepEstimate {
  /** Of rows that come to it for certain. */
  readonly certain: number
  /** As the answers so far make likely. Null: there were none of a service before it. */
  readonly likely: number | null
  /** If every row goes on to the last service. */
  readonly max: number
}

/** What each service in the order would be called with for a source. @param shares of each service. Pure. */
export function estimateSteps(
  steps: readonly StepCounts[],
  shares: readonly (AnswerShares | null)[],
): StepEstimate[] {
  return steps.map(({ byWay, further }, place) => {
    const ways = [...byWay]
    const first = ways.reduce((sum, [, lookups]) => sum + lookups, 0)
    const certain = ways.reduce((sum, [way, lookups]) => sum + (isCertain(way) ? lookups : 0), 0)
    const likelyFirst = ways.reduce<number | null>((sum, [way, lookups]) => {
      const share = lookups === 0 ? 0 : shareOfWay(way, shares)
      return sum === null || share === null ? null : sum + lookups * share
    }, 0)
    const perRow = first === 0 ? 1 : Math.min(1 + further / first, shares[place]?.lookupsPerRow ?? 1)
    return {
      certain,
      likely: likelyFirst === null ? null : Math.round(likelyFirst * perRow),
      max: first + further,
    }
  })
}

const isCertain = (way: Way): boolean => [...way].every((letter) => letter === 'm')

/** The share of rows that go all of a way. Null: a service on it has answered nothing so far. */
function shareOfWay(way: Way, shares: readonly (AnswerShares | null)[]): number | null {
  let product = 1
  for (const [place, letter] of [...way].entries()) {
    if (letter === 'm') continue
    const known = shares[place] ?? null
    if (known === null) return null
    if (known.foundOnward === null) return null
    product *= letter === 'f' ? known.foundOnward : 1 - known.found * (1 - known.foundOnward)
  }
  return product
}

/**
 * What budgets leave of these: a row that an earlier service's budget does not pay does not come to a later one. Those with a
 * stored answer come all the same. Pure.
 * @param budgets the most lookups of each service
 */
export function limitSteps(steps: readonly StepEstimate[], budgets: readonly number[]): StepEstimate[] {
  let [likelyLeft, mostLeft] = [1, 1]
  return steps.map(({ certain, likely, max }, place) => {
    const limit = budgets[place] ?? Number.POSITIVE_INFINITY
    const reach = (lookups: number, share: number): number => certain + (lookups - certain) * share
    const pay = (lookups: number): number => Math.round(Math.min(lookups, limit))
    const wanted = { likely: likely === null ? null : reach(likely, likelyLeft), max: reach(max, mostLeft) }
    likelyLeft *= paidShare(wanted.likely ?? certain, limit)
    // The least that the rows need: further lookups of a cascade may not be needed.
    mostLeft *= paidShare(certain, limit)
    return {
      certain: pay(certain),
      likely: wanted.likely === null ? null : pay(wanted.likely),
      max: pay(wanted.max),
    }
  })
}

const paidShare = (wanted: number, limit: number): number => (wanted <= limit ? 1 : limit / wanted)
