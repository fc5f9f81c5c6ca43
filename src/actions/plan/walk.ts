import { hasCascade } from '../../domain/identifiers/kind.ts'
import { Lookup, type LookupState } from '../../domain/lookup.ts'
import { byKind } from '../../domain/service/service.ts'
import type { Deps } from '../../pipeline/deps.ts'
import type { PickCandidate } from '../../pipeline/pick/candidates.ts'
import {
  chooseForCandidate,
  describeUnusable,
  distinctLookups,
  listIdentifiers,
  LookupMap,
} from '../../pipeline/pick/claim.ts'
import type { Source } from '../../sources/source-model.ts'
import { readStoredAnswers, type LookupSpec, type StoredAnswer } from '../../store/lookups.ts'
import type { Account, WantedStep } from './budgets.ts'
import { sumOf, type LookupEstimate } from './lookup-estimate.ts'

/** What is counted of a service, over all sources. */
export interface CountedService {
  readonly deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random' | 'adapter'>
  readonly estimate: LookupEstimate
  readonly account: Account
}

/** A service of a source. */
export interface PlannedStep {
  readonly service: CountedService
  /** As it fills it. */
  readonly source: Source
}

/** A row without a usable input. */
interface UnusableRow {
  readonly reason: string
}

/** A row on its way along the services. */
interface WalkingRow {
  readonly candidate: PickCandidate
  /** It comes to the service whatever the services before it answer. */
  readonly isCertain: boolean
  /** A record of a service before is stored. */
  readonly isFound: boolean
}

/** States of a lookup that decide where its row goes. */
const ANSWERS: ReadonlySet<LookupState | null> = new Set([Lookup.found, Lookup.notFound, Lookup.rejected])
const NO_ANSWER: StoredAnswer = { costs: true, state: null, confidence: null }

/** Follows the rows of a source along its services, and counts what each may be requested with. */
export class SourceWalk {
  readonly #steps: readonly (PlannedStep & { readonly before: LookupEstimate['requests'] })[]

  /** @param steps in their order */
  constructor(steps: readonly PlannedStep[]) {
    this.#steps = steps.map((step) => ({ ...step, before: step.service.estimate.requests }))
  }

  /** What the rows so far want of each service. */
  get wanted(): WantedStep[] {
    return this.#steps.map(({ service: { account, estimate }, before }) => {
      const now = estimate.requests
      const certain = byKind((kind) => Math.max(0, now.certain[kind] - before.certain[kind]))
      return { account, certain, more: Math.max(0, sumOf(now.possible) - sumOf(before.possible)) }
    })
  }

  /**
   * Adds rows that the first service picks.
   * @param live runs in progress
   * @returns those without an input that it can use
   */
  async follow(candidates: readonly PickCandidate[], live: readonly number[]): Promise<UnusableRow[]> {
    let rows: readonly WalkingRow[] = candidates.map((candidate) => ({
      candidate,
      isCertain: true,
      isFound: false,
    }))
    let unusable: UnusableRow[] | null = null
    for (const step of this.#steps) {
      if (rows.length === 0) break
      const { db, service } = step.service.deps
      const chains = rows.map((row) => ({ row, ...toLookupChain(step.source, row.candidate) }))
      const distinct = distinctLookups(chains.flatMap(({ lookups }) => lookups))
      const stored = await readStoredAnswers(db, distinct, live, service)
      const answers = new LookupMap<StoredAnswer>()
      for (const [n, lookup] of distinct.entries()) answers.set(lookup, stored[n] ?? NO_ANSWER)
      unusable ??= chains.filter(({ row, lookups }) => isUnusable(row.candidate, lookups))
      const { next } = step.source.mapping.step
      rows = chains.flatMap(({ row, lookups }): WalkingRow[] => {
        const isMissed = countLookups(step, lookups, answers, row.isCertain)
        const isFound = row.isFound || isMissed === false
        if (next === null || (isFound && next.when === 'miss')) return []
        // What was requested before, and what the row lacks, is said of its first service.
        const candidate = { ...row.candidate, missed: null, lacks_here: true }
        return [{ candidate, isCertain: row.isCertain && isMissed === true, isFound }]
      })
    }
    return unusable ?? []
  }
}

const isUnusable = (
  { missed, lacks_here: lacksHere }: PickCandidate,
  lookups: readonly LookupSpec[],
): boolean => lookups.length === 0 && missed === null && lacksHere !== false

/**
 * Counts what a row wants of a service.
 * @param isCertain the row comes to it whatever the services before it answer
 * @returns whether stored answers send the row on, or end it as found; null: that is not known yet
 */
function countLookups(
  { service: { estimate }, source: { mapping } }: PlannedStep,
  lookups: readonly LookupSpec[],
  answers: LookupMap<StoredAnswer>,
  isCertain: boolean,
): boolean | null {
  for (const [n, lookup] of lookups.entries()) {
    const { costs, state, confidence } = answers.get(lookup) ?? NO_ANSWER
    if (costs || isCertain) estimate.add(lookup, !costs ? 'stored' : isCertain ? 'certain' : 'possible')
    if (!costs && state === Lookup.notFound && hasCascade(mapping)) continue
    for (const further of lookups.slice(n + 1))
      if (answers.get(further)?.costs === true) estimate.add(further, 'possible')
    if (costs || !ANSWERS.has(state)) return null
    return state !== Lookup.found || (confidence !== null && confidence < mapping.minConfidence)
  }
  return true
}

/** The lookups of a row at a service: none where it lacks only what later services fill; and why there are none. */
function toLookupChain(
  source: Source,
  candidate: PickCandidate,
): { readonly lookups: readonly LookupSpec[]; readonly reason: string } {
  if (candidate.lacks_here === false) return { lookups: [], reason: '' }
  const bestChoice = chooseForCandidate(source, candidate)
  if (bestChoice.lookup === null) return { lookups: [], reason: describeUnusable(bestChoice.notes) }
  if (!hasCascade(source.mapping)) return { lookups: [bestChoice.lookup], reason: '' }
  const missedKinds = candidate.missed?.kinds ?? []
  const all = [...listIdentifiers(source, candidate, source.mapping.step)].flatMap(
    ({ lookup }) => lookup ?? [],
  )
  return { lookups: all.filter(({ kind }) => !missedKinds.includes(kind)), reason: '' }
}
