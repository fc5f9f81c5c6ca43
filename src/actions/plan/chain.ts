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
  /** Of all rows that it was called for: those that it found. */
  readonly found: number
  /** Of the rows that no service before had found: those that it found. */
  readonly foundFirst: number
  /** Of these: those that went on, because a wanted cell was still blank. Null: not known yet. */
  readonly foundOnward: number | null
  /** Of the rows that a service before had found: those that went on. Null: not known yet. */
  readonly filledOnward: number | null
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
 * @param when which rows go on from it
 */
export function toAnswerShares(
  history: readonly AnswersSoFar[],
  place: number,
  when: 'miss' | 'blank' | null,
): AnswerShares | null {
  const called = history.filter(({ found }) => found[place] != null)
  const observations = sumRows(called)
  if (observations === 0) return null
  const past = called.filter(({ found }) => found.slice(0, place).every((one) => one !== null))
  const missed = past.filter(({ found }) => found.slice(0, place).every((one) => one === false))
  const isEnough = sumRows(missed) >= ENOUGH_ROWS || missed.length === called.length
  const alone = isEnough ? missed : called
  const isFound = ({ found }: AnswersSoFar): boolean => found[place] === true
  const foundAlone = alone.filter(isFound)
  const filled = past.filter((one) => !missed.includes(one))
  const used = isEnough ? past : called
  const lookups = used.reduce((sum, one) => sum + (one.lookups[place] ?? 0), 0)
  return {
    found: sumRows(used.filter(isFound)) / sumRows(used),
    foundFirst: sumRows(foundAlone) / sumRows(alone),
    foundOnward: toOnwardShare(foundAlone, place, when),
    filledOnward: toOnwardShare(filled, place, when),
    lookupsPerRow: Math.max(1, lookups / sumRows(used)),
    observations: sumRows(used),
  }
}

/** The share of rows that went on for their blank cells. None so far: until now there was perhaps no service for them. */
function toOnwardShare(
  rows: readonly AnswersSoFar[],
  place: number,
  when: 'miss' | 'blank' | null,
): number | null {
  if (when !== 'blank') return 0
  const wentOn = sumRows(rows.filter(({ found }) => found.slice(place + 1).some((one) => one !== null)))
  return wentOn === 0 ? null : wentOn / sumRows(rows)
}

const sumRows = (history: readonly AnswersSoFar[]): number => history.reduce((sum, one) => sum + one.rows, 0)

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

/**
 * What each service in the order would be called with for a source. Pure.
 * @param shares of each service
 * @param when which rows go on from each
 */
export function estimateSteps(
  steps: readonly StepCounts[],
  shares: readonly (AnswerShares | null)[],
  when: readonly ('miss' | 'blank' | null)[],
): StepEstimate[] {
  return steps.map(({ byWay, further }, place) => {
    const ways = [...byWay]
    const first = ways.reduce((sum, [, lookups]) => sum + lookups, 0)
    const certain = ways.reduce((sum, [way, lookups]) => sum + (isCertain(way) ? lookups : 0), 0)
    const likelyFirst = ways.reduce<number | null>((sum, [way, lookups]) => {
      const share = lookups === 0 ? 0 : shareOfWay(way, shares, when)
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
function shareOfWay(
  way: Way,
  shares: readonly (AnswerShares | null)[],
  when: readonly ('miss' | 'blank' | null)[],
): number | null {
  // Rows that no service on the way has found, and those that one has found and that have a blank cell left.
  let [missed, filled]: [number, number] = [1, 0]
  for (const [place, letter] of [...way].entries()) {
    const goesOnFilled = when[place] === 'blank'
    if (letter === 'm') {
      if (!goesOnFilled) filled = 0
      continue
    }
    const known = shares[place] ?? null
    if (known === null) return null
    const found = letter === 'f' ? 1 : known.foundFirst
    const stays = [missed * found > 0 ? known.foundOnward : 0, filled > 0 ? known.filledOnward : 0] as const
    if (stays[0] === null || stays[1] === null) return null
    filled = missed * found * stays[0] + filled * stays[1]
    missed *= 1 - found
  }
  return missed + filled
}
