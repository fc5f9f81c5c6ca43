import { hasCascade, type LookupKind } from '../../domain/identifiers/kind.ts'
import type { Deps } from '../../pipeline/deps.ts'
import type { PickCandidate } from '../../pipeline/pick/candidates.ts'
import { readCandidatesByKey } from '../../pipeline/pick/candidates.ts'
import { distinctLookups, LookupMap } from '../../pipeline/pick/choose.ts'
import type { Source } from '../../sources/source-model.ts'
import * as runs from '../../store/runs.ts'
import { inTransaction } from '../../store/transaction.ts'
import * as lookups from '../../store/upsert-lookups.ts'
import type { StepEstimate } from './budgets.ts'
import { NO_LOOKUPS } from './estimates.ts'
import { LookupEstimate } from './lookup-estimate.ts'
import { type LookupChain, toLookupChain } from './planned-page.ts'

/** A service of a source, at its place in the order. */
export interface PlannedService {
  readonly deps: Pick<Deps, 'db' | 'policy' | 'service'>
  readonly source: Source
  /** Its place among all services of the configuration: their lookups are counted apart. */
  readonly index: number
}

/** What a service of a source would be called with, and its lookups by kind. */
export interface PlannedStep extends StepEstimate {
  readonly byKind: Readonly<Record<LookupKind, number>>
}

/**
 * How a row leaves a service.
 * - `missed`: a stored answer sends it on, or it has no input for the service
 * - `found`: a record is stored; it goes on if a wanted cell stays blank
 * - `called`: the service is called first
 */
type Leaving = 'missed' | 'found' | 'called'

interface StepCounts {
  certain: number
  max: number
  readonly byKind: Record<LookupKind, number>
}

/**
 * Follows the rows of a plan from service to service. Lookups of each service are counted once over all sources.
 */
export class OnwardRows {
  readonly #estimates = new Map<number, LookupEstimate>()
  readonly #counts = new Map<string, StepCounts>()

  /** Adds rows that the first service picks. @param services those of the source, in their order */
  async add(services: readonly PlannedService[], chains: readonly LookupChain[]): Promise<void> {
    let rows: OnwardRow[] = chains.map((chain) => ({ chain, isCalled: false, isFound: false }))
    for (const [place, service] of services.entries()) {
      const { next } = service.source.mapping.turn
      if (place > 0) rows = await toOwnChains(service, services[0], rows)
      const left = await this.#judge(service, rows)
      rows = rows.flatMap(({ chain, isCalled, isFound }, n) => {
        const as = left[n] ?? 'missed'
        const row = { chain, isCalled: isCalled || as === 'called', isFound: isFound || as === 'found' }
        return next === null || (row.isFound && next.when === 'miss') ? [] : [row]
      })
    }
  }

  /** What the services of a source would be called with. */
  listSteps(services: readonly PlannedService[]): PlannedStep[] {
    return services.map(({ index, source }) => {
      const { certain = 0, max = 0, byKind = NO_LOOKUPS } = this.#counts.get(`${index} ${source.name}`) ?? {}
      return { certain, max, byKind }
    })
  }

  /** How rows leave a service, and counts what it would be called with. */
  async #judge({ deps, source, index }: PlannedService, rows: readonly OnwardRow[]): Promise<Leaving[]> {
    const { db, service } = deps
    const distinct = distinctLookups(rows.flatMap(({ chain }) => chain.lookups))
    const live = (await runs.listRunning(db)).map((run) => run.id)
    const billable = await lookups.needCall(db, distinct, live, service)
    const states = await lookups.listStoredStates(db, distinct, service)
    const known = new LookupMap<{ costs: boolean; answer: (typeof states)[number] }>()
    for (const [n, lookup] of distinct.entries())
      known.set(lookup, { costs: billable[n] === true, answer: states[n] ?? null })
    const costs = (lookup: lookups.LookupSpec): boolean => known.get(lookup)?.costs === true
    return rows.map(({ chain: { candidate, lookups: chain }, isCalled, isFound }): Leaving => {
      if (!candidate.lacks) return 'found'
      for (const [step, lookup] of chain.entries()) {
        const answer = known.get(lookup)?.answer ?? null
        if (costs(lookup) || answer === null || answer.state === 'open') {
          this.#count(index, source.name, !isCalled && !isFound, chain.slice(step).filter(costs))
          return 'called'
        }
        if (answer.state === 'missed' && hasCascade(source.mapping)) continue
        const isTaken = answer.confidence === null || answer.confidence >= source.mapping.minConfidence
        return answer.state === 'found' && isTaken ? 'found' : 'missed'
      }
      return 'missed'
    })
  }

  /** @param isCertain the row comes to the service whatever those before it answer */
  #count(
    index: number,
    source: string,
    isCertain: boolean,
    [first, ...further]: readonly lookups.LookupSpec[],
  ): void {
    if (first === undefined) return
    const estimate = this.#estimates.get(index) ?? new LookupEstimate()
    this.#estimates.set(index, estimate)
    const name = `${index} ${source}`
    const counts = this.#counts.get(name) ?? { certain: 0, max: 0, byKind: { ...NO_LOOKUPS } }
    this.#counts.set(name, counts)
    const { requests, maxRequests } = estimate
    estimate.add(first, true)
    for (const one of further) estimate.addFallback(one)
    const added = estimate.requests - requests
    if (isCertain) counts.certain += added
    counts.max += estimate.maxRequests - maxRequests
    counts.byKind[first.kind] += added
  }
}

interface OnwardRow {
  readonly chain: LookupChain
  /** A service before is called first. */
  readonly isCalled: boolean
  /** A record of a service before is stored. */
  readonly isFound: boolean
}

/** The same rows as a later service sees them. */
async function toOwnChains(
  { deps, source }: PlannedService,
  first: PlannedService | undefined,
  rows: readonly OnwardRow[],
): Promise<OnwardRow[]> {
  const fillsTheSame = first !== undefined && columnsOf(source) === columnsOf(first.source)
  const keys = rows.map(({ chain }) => chain.candidate.key)
  const own: ReadonlyMap<string, PickCandidate> = fillsTheSame
    ? new Map()
    : new Map(
        (
          await inTransaction(
            deps.db,
            (tx) => readCandidatesByKey(tx, source, keys, deps.service),
            deps.policy.sourceTimeoutMs,
          )
        ).map((one) => [one.key, one]),
      )
  return rows.flatMap(({ chain: { candidate }, ...row }) => {
    const seen = fillsTheSame ? candidate : own.get(candidate.key)
    return seen === undefined ? [] : [{ ...row, chain: toLookupChain(source, { ...seen, missed: null }) }]
  })
}

const columnsOf = ({ outputs }: Source): string =>
  JSON.stringify(outputs.map(({ column, mapping }) => [column, mapping.policy]))
