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
import { type LookupEstimate, sumOf, USES } from './lookup-estimate.ts'

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

/** How a row leaves the first service, as far as that is known before any request. */
interface RowEnd {
  readonly key: string
  readonly kind: 'invalid_input' | 'call' | 'stored'
  /** Why no input is usable. */
  readonly reason: string
}

/** A row on its way along the services. */
interface WalkingRow {
  readonly candidate: PickCandidate
  /** A service before is called first. */
  readonly isCalled: boolean
  /** A record of a service before is stored. */
  readonly isFound: boolean
  /** It is the first of the rows that one of these calls is counted for. */
  readonly isPayer: boolean
}

/** With what `WantedStep` says of it. */
interface CountedStep extends PlannedStep {
  readonly before: LookupEstimate['requests']
  free: number
  deepest: number
}

/** States of a lookup that decide where its row goes. */
const ANSWERS: ReadonlySet<LookupState | null> = new Set([Lookup.found, Lookup.notFound, Lookup.rejected])
const NO_ANSWER: StoredAnswer = { costs: true, state: null, confidence: null }

/** Follows the rows of a source along its services, and counts what each would be requested with. */
export class SourceWalk {
  readonly #steps: readonly CountedStep[]

  /** @param steps in their order */
  constructor(steps: readonly PlannedStep[]) {
    const uncounted = { free: 0, deepest: 0 }
    this.#steps = steps.map((step) => ({ ...step, ...uncounted, before: step.service.estimate.requests }))
  }

  /** What the rows so far want of each service. */
  get wanted(): WantedStep[] {
    return this.#steps.map(({ service: { account, estimate }, before, free, deepest }) => {
      const now = estimate.requests
      const certain = byKind((kind) => Math.max(0, now.certain[kind] - before.certain[kind]))
      const added = USES.reduce((sum, use) => sum + sumOf(now[use]) - sumOf(before[use]), 0)
      return { account, certain, more: Math.max(0, added - sumOf(certain)), free, deepest }
    })
  }

  /**
   * Adds rows that the first service picks.
   * @param live runs in progress
   * @returns how each leaves that service
   */
  async follow(candidates: readonly PickCandidate[], live: readonly number[]): Promise<RowEnd[]> {
    const unseen = { isCalled: false, isFound: false, isPayer: false }
    let rows: readonly WalkingRow[] = candidates.map((candidate) => ({ candidate, ...unseen }))
    let ends: RowEnd[] | null = null
    for (const step of this.#steps) {
      if (ends !== null) rows = await asSeenBy(step, this.#steps[0]?.source, rows)
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
      ends ??= passed.map(({ row, ...end }) => ({ key: row.candidate.key, ...end }))
      const { next } = step.source.mapping.turn
      rows = passed.flatMap(({ row }) =>
        next === null || (row.isFound && next.when === 'miss') ? [] : [row],
      )
    }
    return ends ?? []
  }
}

/** Counts what a row wants of a service. @returns the row as it leaves it, and how it does */
function pass(
  step: CountedStep,
  row: WalkingRow,
  lookups: readonly LookupSpec[],
  answers: LookupMap<StoredAnswer>,
): { readonly row: WalkingRow; readonly kind: RowEnd['kind'] } {
  const { estimate } = step.service
  const { mapping } = step.source
  const { candidate, isCalled, isFound, isPayer } = row
  // It comes to the service whatever those before it answer.
  const isCertain = !isCalled && !isFound
  if (!candidate.lacks) return { row: { ...row, isFound: true }, kind: 'stored' }
  for (const [n, lookup] of lookups.entries()) {
    const { costs, state, confidence } = answers.get(lookup) ?? NO_ANSWER
    const use = costs ? (isCertain ? 'certain' : 'possible') : 'stored'
    const isNew = (costs || isCertain) && estimate.add(lookup, use)
    if (!costs && state === Lookup.notFound && hasCascade(mapping)) continue
    const further = lookups.slice(n + 1).filter((one) => answers.get(one)?.costs === true)
    for (const one of further) estimate.add(one, 'further')
    const more = further.length + (use === 'possible' ? 1 : 0)
    if (isPayer) step.deepest = Math.max(step.deepest, more)
    else step.free += more
    const isOpen = costs || !ANSWERS.has(state)
    const isTaken = state === Lookup.found && (confidence === null || confidence >= mapping.minConfidence)
    return {
      row: {
        candidate,
        isCalled: isCalled || isOpen,
        isFound: isFound || (!isOpen && isTaken),
        isPayer: isPayer || (costs && isNew),
      },
      kind: costs ? 'call' : 'stored',
    }
  }
  const isUnusable = lookups.length === 0 && candidate.missed === null && candidate.lacks_here !== false
  return { row, kind: isUnusable ? 'invalid_input' : 'call' }
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
