import { setTimeout as sleep } from 'node:timers/promises'
import { hasCascade } from '../domain/identifiers/kind.ts'
import type { Deps } from '../pipeline/deps.ts'
import { repick } from '../pipeline/pick/pick.ts'
import type { Source } from '../sources/source-model.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { advanceCascade, findWaitingRows } from '../store/run-progress.ts'
import { isConflict, TableBusyError } from '../store/transaction.ts'
import { logWait } from './loop.ts'
import type { PickAlone } from './pick-alone.ts'
import { isFit, unlessBroken } from './source-health.ts'
import type { StartedRun } from './start-run.ts'

interface GroupMember {
  readonly run: StartedRun
  hasEnded: boolean
  /** `changes` before its last look, if its own rows were done but for those that others may hand on; null: they were not. */
  idleAt: number | null
}

/**
 * The runs that are started together, one for each of several services. A row goes from one to the next, so that a run has all its
 * rows once those before it have none left.
 */
export class RunGroup {
  readonly #members = new Map<number, GroupMember>()
  #changes = 0

  /**
   * Counted up whenever a run has work, or has none any more, or has ended: it may have handed rows on to another one, which must be
   * looked at again.
   */
  get changes(): number {
    return this.#changes
  }

  add(run: StartedRun): void {
    this.#members.set(run.id, { run, hasEnded: false, idleAt: null })
  }

  markEnded(run: number): void {
    const member = this.#members.get(run)
    if (member) member.hasEnded = true
    this.#changes++
  }

  markBusy(run: number): void {
    const member = this.#members.get(run)
    if (member) member.idleAt = null
    this.#changes++
  }

  /**
   * A run that awaits others has done its own rows, as far as it will: some wait for the budget, or for a service that is down. With
   * opposite orders of services two runs may await such rows of each other.
   * @param changes before its rows were looked at
   * @returns whether nothing can come of the others either: each was looked at since the last change
   */
  markIdle(run: number, changes: number): boolean {
    const member = this.#members.get(run)
    if (member?.idleAt === null) this.#changes++
    if (member) member.idleAt = changes
    return [...this.#members.values()].every(({ hasEnded, idleAt }) => hasEnded || idleAt === this.#changes)
  }

  /**
   * Whether rows of some run may come back to it over others: with opposite orders of services. These runs end once all are idle, so that
   * none may keep rows for a full job, nor may a third one that waits for them.
   */
  get hasOppositeOrders(): boolean {
    const orders = [...this.#members.values()].flatMap(({ run }) =>
      run.sources.map(({ mapping }) => mapping.turn.services),
    )
    return orders.flat().some((service) => isAfterItself(service, orders))
  }

  /**
   * Whether rows may still be handed on to a run: one of a service before it has not ended. That has no rows where it only waits for
   * another process, whose rows it takes over if that dies.
   */
  mayReceive({ sources }: Pick<StartedRun, 'sources'>): boolean {
    return sources.some(({ name, mapping: { turn } }) => {
      const before = new Set(turn.services.slice(0, turn.services.indexOf(turn.service ?? '')))
      const isEarlier = (one: Source): boolean =>
        one.name === name && before.has(one.mapping.turn.service ?? '')
      return [...this.#members.values()].some(({ run, hasEnded }) => !hasEnded && run.sources.some(isEarlier))
    })
  }
}

function isAfterItself(service: string, orders: readonly (readonly string[])[]): boolean {
  const later = new Set<string>()
  for (const queue = [service]; queue.length > 0;) {
    const one = queue.pop() ?? ''
    const after = orders.flatMap((order) => (order.includes(one) ? order.slice(order.indexOf(one) + 1) : []))
    queue.push(...after.filter((next) => !later.has(next)))
    for (const next of after) later.add(next)
  }
  return later.has(service)
}

/** In a dry run, to the next identifier or the next service. */
export const goesOnAfterMiss = ({ mapping }: Source): boolean =>
  hasCascade(mapping) || mapping.turn.next !== null

/** How often rows that are handed on are looked for, in milliseconds; and while the budget cannot pay some of them. */
const HANDED_ON_POLL_MS = 200
const UNPAID_POLL_MS = 2_000

interface HandedOnOptions {
  readonly signal: AbortSignal
  readonly pickAlone: PickAlone
  readonly onPicked: (rows: number) => void
}

/** Picks the rows that services before this one hand on to a run, until none can come any more. */
export async function pickHandedOn(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  group: RunGroup,
  run: StartedRun,
  { signal, pickAlone, onPicked }: HandedOnOptions,
): Promise<void> {
  const sources = run.sources.filter(({ mapping }) => !mapping.turn.isFirst)
  if (sources.length === 0) return
  // Its own rows that go on to their next identifier too: another run may wait for them while this one waits for its rows.
  const cascading = run.sources.filter(goesOnAfterMiss).map(({ name }) => name)
  const options = { signal, onWait: logWait(deps.log, { step: 'pick' }) }
  for (let isLast = false; !isLast && !signal.aborted;) {
    isLast = !group.mayReceive({ sources })
    if (run.isDryRun) await retryWhileUnavailable(() => advanceCascade(deps.db, run.id, cascading), options)
    const pick = () => pickAlone(() => pickOnce(deps, group, run, signal))
    const picked = await retryWhileUnavailable(pick, options)
    if (picked > 0) {
      onPicked(picked)
      isLast = false
    } else if (!isLast)
      await sleep(run.budget.rowsAwaitingBudget > 0 ? UNPAID_POLL_MS : HANDED_ON_POLL_MS, undefined, {
        signal,
      }).catch(() => {})
  }
}

async function pickOnce(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  group: RunGroup,
  run: StartedRun,
  signal: AbortSignal,
): Promise<number> {
  const fit = run.sources.filter(isFit)
  const names = fit.map((source) => source.name)
  if (!(await findWaitingRows(deps.db, run.id, names)).hasRequeued) return 0
  // Before they are picked, which may hand some of them on at once. Those that the budget cannot pay stay.
  if (run.budget.rowsAwaitingBudget === 0) group.markBusy(run.id)
  let picked = 0
  for (const source of fit)
    try {
      const result = await unlessBroken(deps, source, () =>
        repick(deps, run, source, { includeAbandoned: false, signal }),
      )
      picked += result?.repicked ?? 0
    } catch (error) {
      // Another transaction has locked the table, or a row: the next look finds them again.
      if (!(error instanceof TableBusyError) && !isConflict(error)) throw error
    }
  return picked
}
