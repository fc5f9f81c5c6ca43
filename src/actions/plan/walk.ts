import { hasCascade } from '../../domain/identifiers/kind.ts'
import { Lookup, type LookupState } from '../../domain/lookup.ts'
import { byKind } from '../../domain/service/credits.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { type PickCandidate, readCandidatesByKey } from '../../pipeline/pick/candidates.ts'
import {
  chooseForCandidate,
  describeUnusable,
  distinctLookups,
  listIdentifiers,
  LookupMap,
} from '../../pipeline/pick/choose.ts'
import type { Source } from '../../sources/source-model.ts'
import { inTransaction } from '../../store/transaction.ts'
import { type LookupSpec, readStoredAnswers, type StoredAnswer } from '../../store/upsert-lookups.ts'
import type { Account, WantedStep } from './budgets.ts'
import { type LookupEstimate, sumOf } from './lookup-estimate.ts'

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
      if (unusable !== null) rows = await asSeenBy(step, this.#steps[0]?.source, rows)
      if (rows.length === 0) break
      const { db, service } = step.service.deps
      const chains = rows.map((row) => ({ row, ...toLookupChain(step.source, row.candidate) }))
      const distinct = distinctLookups(chains.flatMap(({ lookups }) => lookups))
      const stored = await readStoredAnswers(db, distinct, live, service)
      const answers = new LookupMap<StoredAnswer>()
      for (const [n, lookup] of distinct.entries()) answers.set(lookup, stored[n] ?? NO_ANSWER)
      const passed = chains.map(({ row, lookups, reason }) => ({
        reason,
        ...pass(step, row, lookups, answers),
      }))
      unusable ??= passed.filter(({ isUnusable }) => isUnusable)
      const { next } = step.source.mapping.turn
      rows = passed.flatMap(({ row }) =>
        next === null || (row.isFound && next.when === 'miss') ? [] : [row],
      )
    }
    return unusable ?? []
  }
}

/** Counts what a row wants of a service. @returns the row as it leaves it */
function pass(
  { service: { estimate }, source: { mapping } }: PlannedStep,
  row: WalkingRow,
  lookups: readonly LookupSpec[],
  answers: LookupMap<StoredAnswer>,
): { readonly row: WalkingRow; readonly isUnusable: boolean } {
  const { candidate, isCertain, isFound } = row
  if (!candidate.lacks) return { row: { candidate, isCertain: false, isFound: true }, isUnusable: false }
  for (const [n, lookup] of lookups.entries()) {
    const { costs, state, confidence } = answers.get(lookup) ?? NO_ANSWER
    if (costs || isCertain) estimate.add(lookup, !costs ? 'stored' : isCertain ? 'certain' : 'possible')
    if (!costs && state === Lookup.notFound && hasCascade(mapping)) continue
    for (const further of lookups.slice(n + 1))
      if (answers.get(further)?.costs === true) estimate.add(further, 'possible')
    const isOpen = costs || !ANSWERS.has(state)
    const isTaken =
      !isOpen && state === Lookup.found && (confidence === null || confidence >= mapping.minConfidence)
    return {
      row: { candidate, isCertain: isCertain && !isOpen && !isTaken, isFound: isFound || isTaken },
      isUnusable: false,
    }
  }
  const isUnusable = lookups.length === 0 && candidate.missed === null && candidate.lacks_here !== false
  return { row, isUnusable }
}

/** The rows as a later service sees them, which may fill other cells. */
async function asSeenBy(
  { service: { deps }, source }: PlannedStep,
  first: Source | undefined,
  rows: readonly WalkingRow[],
): Promise<WalkingRow[]> {
  if (first !== undefined && columnsOf(source) === columnsOf(first))
    return rows.map((row) => ({ ...row, candidate: { ...row.candidate, missed: null } }))
  const keys = rows.map(({ candidate }) => candidate.key)
  const candidates = await inTransaction(
    deps.db,
    (tx) => readCandidatesByKey(tx, source, keys, deps.service),
    deps.policy.sourceTimeoutMs,
  )
  const own = new Map(candidates.map((candidate) => [candidate.key, { ...candidate, missed: null }]))
  return rows.flatMap((row) => {
    const candidate = own.get(row.candidate.key)
    return candidate === undefined ? [] : [{ ...row, candidate }]
  })
}

const columnsOf = ({ outputs }: Source): string =>
  JSON.stringify(outputs.map(({ column, mapping }) => [column, mapping.policy]))

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
  const all = [...listIdentifiers(source, candidate, source.mapping.turn)].flatMap(
    ({ lookup }) => lookup ?? [],
  )
  return { lookups: all.filter(({ kind }) => !missedKinds.includes(kind)), reason: '' }
}
