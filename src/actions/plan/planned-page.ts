import { hasCascade } from '../../domain/identifiers/kind.ts'
import type { Deps } from '../../pipeline/deps.ts'
import {
  type CandidatePage,
  type PickCandidate,
  readCandidates,
  readCandidatesByKey,
} from '../../pipeline/pick/candidates.ts'
import {
  chooseForCandidate,
  describeUnusable,
  findSuppressedRows,
  listIdentifiers,
  lookupKey,
  type LookupChoice,
} from '../../pipeline/pick/choose.ts'
import { PAGE_SIZE, type PickPass } from '../../pipeline/pick/pass.ts'
import { isStretch, readStretch } from '../../pipeline/pick/stretch.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import type { Source } from '../../sources/source-model.ts'
import * as lookups from '../../store/upsert-lookups.ts'
import { listDueRows } from '../../store/due-rows.ts'
import { listAbandonedRows } from '../../store/waiting-rows.ts'
import * as runs from '../../store/runs.ts'
import * as storedAnswers from '../../store/stored-records.ts'
import { inTransaction, type Tx } from '../../store/transaction.ts'

/** A row's usable lookups, in the order in which they would be requested. */
export interface LookupChain {
  readonly candidate: PickCandidate
  readonly lookups: readonly lookups.LookupSpec[]
  /** Why there are none. */
  readonly reason: string
}

export interface PlannedPage {
  readonly dispositions: Awaited<ReturnType<typeof readCandidates>>['dispositions']
  readonly next: string | null
  readonly scanned: number
  /** The most candidates in one page of those read. */
  readonly densest: number
  /** Rows that wait for a dead run, and that another program has enriched. */
  readonly settled: number
  readonly chains: readonly LookupChain[]
  /** By lookup key. */
  readonly billable: ReadonlySet<string>
  readonly knownMisses: ReadonlySet<string>
  /** Indexes of `chains`. */
  readonly suppressed: ReadonlySet<number>
}

export type PlanPhase = Extract<PickPass['phase'], 'abandoned' | 'due' | 'scan'>

interface PlanPosition {
  readonly where: string | null
  readonly changedSince: Date | null
  readonly phase: PlanPhase
  readonly after: string | null
  readonly size: number
  /** A run with the same budget could pay no more. */
  readonly isBeyondBudget: boolean
}

/** Reads a page, or several, as a run would, and finds which of its lookups would cost something. */
export async function planPage(
  deps: Pick<Deps, 'db' | 'policy' | 'service'>,
  source: Source,
  { phase, size, isBeyondBudget, ...position }: PlanPosition,
  room: number | null,
): Promise<PlannedPage> {
  const { db, policy, service } = deps
  const { changedSince } = position
  const live = (await runs.listRunning(db)).map((run) => run.id)
  const read = { ...position, staleSince: changedSince, live, service }
  const readPage = async (tx: Tx): Promise<CandidatePage> => {
    if (phase !== 'scan') return readListed(tx, source, phase, read, Math.min(room ?? size, PAGE_SIZE))
    const whole = excludeListed(await readCandidates(tx, source, { ...read, size }), changedSince)
    const picked = whole.candidates.filter((one) => one.lacks && one.settledUntil === null)
    const last = room === null ? undefined : picked[room - 1]
    // Up to the last row within the limit, so that every count is of the same rows.
    return last === undefined || last.key === whole.last
      ? whole
      : excludeListed(
          { ...(await readCandidates(tx, source, { ...read, size, until: last.key })), next: last.key },
          changedSince,
        )
  }
  const isStretched = !isBeyondBudget && phase === 'scan' && isStretch(size, { limit: room, changedSince })
  const page = await (
    isStretched
      ? readStretch(deps, source, { ...read, size })
      : inTransaction(db, readPage, policy.sourceTimeoutMs)
  ).catch(async (error: unknown) => {
    const failed = { ...position, limit: size }
    throw (await explainPageFailure(db, source, failed, error)) ?? error
  })
  const candidates = page.candidates.filter((candidate) => candidate.settledUntil === null)
  const chains = candidates.map((candidate) => toLookupChain(source, candidate))
  const distinct = [
    ...new Map(chains.flatMap((chain) => chain.lookups).map((one) => [lookupKey(one), one])).values(),
  ]
  const flagged = (flags: readonly boolean[]): Set<string> =>
    new Set(distinct.filter((_, n) => flags[n]).map(lookupKey))
  return {
    dispositions: page.dispositions,
    next: page.next,
    scanned: page.scanned,
    densest: page.densest,
    settled: page.candidates.length - candidates.length,
    chains,
    billable: flagged(await lookups.needCall(db, distinct, live, service)),
    knownMisses: flagged(
      hasCascade(source.mapping) ? await storedAnswers.findKnownMisses(db, distinct, service) : [],
    ),
    suppressed: await findSuppressedRows(db, source, candidates),
  }
}

/** The rows that a pass by `changedAt` finds in Fillrate's own tables: abandoned ones, and due ones. */
async function readListed(
  tx: Tx,
  source: Source,
  phase: Exclude<PlanPhase, 'scan'>,
  {
    after,
    live,
    service,
  }: { readonly after: string | null; readonly live: number[]; readonly service: number },
  size: number,
): Promise<CandidatePage> {
  const keys =
    phase === 'abandoned'
      ? await listAbandonedRows(tx, source.name, live, after ?? '', size)
      : await listDueRows(tx, source.name, after ?? '', size)
  const candidates = await readCandidatesByKey(tx, source, keys, service)
  const next = keys.length === size ? (keys.at(-1) ?? null) : null
  return {
    candidates,
    dispositions: {},
    last: keys.at(-1) ?? null,
    next,
    scanned: candidates.length,
    densest: candidates.length,
  }
}

/** Without the rows that `readListed` has found already, if it has. */
function excludeListed(page: CandidatePage, changedSince: Date | null): CandidatePage {
  const candidates =
    changedSince === null
      ? page.candidates
      : page.candidates.filter((one) => one.disposition !== 'abandoned' && !one.isDue)
  const scanned = page.scanned - (page.candidates.length - candidates.length)
  return { ...page, candidates, scanned }
}

/** The lookups of a row at a service: none where it lacks only what later services fill. */
export function toLookupChain(source: Source, candidate: PickCandidate): LookupChain {
  if (candidate.lacks_here === false) return { candidate, lookups: [], reason: '' }
  const bestChoice = chooseForCandidate(source, candidate)
  const reason = bestChoice.lookup === null ? describeUnusable(bestChoice.notes) : ''
  if (bestChoice.lookup === null || !hasCascade(source.mapping))
    return { candidate, lookups: toList(bestChoice), reason }
  const missedKinds = candidate.missed?.kinds ?? []
  const all = [...listIdentifiers(source, candidate, source.mapping.turn)].flatMap(toList)
  return { candidate, lookups: all.filter((lookup) => !missedKinds.includes(lookup.kind)), reason }
}

const toList = ({ lookup }: Pick<LookupChoice, 'lookup'>): lookups.LookupSpec[] =>
  lookup === null ? [] : [lookup]
