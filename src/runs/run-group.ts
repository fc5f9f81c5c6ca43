import { setTimeout as sleep } from 'node:timers/promises'
import { hasCascade } from '../domain/identifiers/kind.ts'
import type { Deps } from '../pipeline/deps.ts'
import { repick } from '../pipeline/pick/pick.ts'
import type { Source } from '../sources/source-model.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { advanceCascade, findWaitingRows, hasOpenDryRows } from '../store/run-progress.ts'
import { hasWaitingRows } from '../store/waiting-rows.ts'
import { isConflict, TableBusyError } from '../store/transaction.ts'
import { logWait } from './loop.ts'
import { isFit, unlessBroken } from './source-health.ts'
import type { StartedRun } from './start-run.ts'

interface GroupMember {
  readonly run: StartedRun
  /** It has read all tables whose rows it picks itself. */
  hasScanned: boolean
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
    this.#members.set(run.id, { run, hasScanned: false, hasEnded: false, idleAt: null })
  }

  markScanned(run: number): void {
    const member = this.#members.get(run)
    if (member) member.hasScanned = true
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

  /** Whether rows of a run may come back to it over others, which then may wait for it: with opposite orders of services. */
  mayReturn({ sources }: Pick<StartedRun, 'sources'>): boolean {
    const orders = [...this.#members.values()].flatMap(({ run }) =>
      run.sources.map(({ mapping }) => mapping.turn.services),
    )
    const own = sources[0]?.mapping.turn.service ?? ''
    const later = new Set<string>()
    for (const queue = [own]; queue.length > 0;) {
      const service = queue.pop() ?? ''
      const after = orders.flatMap((order) =>
        order.includes(service) ? order.slice(order.indexOf(service) + 1) : [],
      )
      for (const one of after) if (!later.has(one)) queue.push(one)
      for (const one of after) later.add(one)
    }
    return later.has(own)
  }

  /** Whether rows may still be handed on to a run. */
  async mayReceive(db: Deps['db'], { sources }: Pick<StartedRun, 'sources'>): Promise<boolean> {
    for (const source of sources) {
      const earlier = this.#listEarlier(source)
      // Looked at before the rows: what is picked after that waits in one of these runs.
      if (earlier.some(({ isFirst, member }) => isFirst && !member.hasScanned)) return true
      const runs = earlier.map(({ member }) => member.run.id)
      // Rows that a dry run has found wait for the run that writes them.
      const hasRows = earlier.some(({ member }) => member.run.isDryRun) ? hasOpenDryRows : hasWaitingRows
      if (runs.length > 0 && (await hasRows(db, runs, source.name))) return true
    }
    return false
  }

  /** The running ones of the services before this one. */
  #listEarlier({ name, mapping }: Source): { readonly isFirst: boolean; readonly member: GroupMember }[] {
    const { service, services } = mapping.turn
    const before = new Set(services.slice(0, services.indexOf(service ?? '')))
    return [...this.#members.values()].flatMap((member) => {
      const turn = member.run.sources.find((one) => one.name === name)?.mapping.turn
      const isEarlier = turn !== undefined && before.has(turn.service ?? '')
      return isEarlier && !member.hasEnded ? [{ isFirst: turn.isFirst, member }] : []
    })
  }
}

/** In a dry run, to the next identifier or the next service. */
export const goesOnAfterMiss = ({ mapping }: Source): boolean =>
  hasCascade(mapping) || mapping.turn.next !== null

/** How often rows that are handed on are looked for, in milliseconds; and while the budget cannot pay some of them. */
const HANDED_ON_POLL_MS = 200
const UNPAID_POLL_MS = 2_000

/** Picks the rows that services before this one hand on to a run, until none can come any more. */
export async function pickHandedOn(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  group: RunGroup,
  run: StartedRun,
  { signal, onPicked }: { readonly signal: AbortSignal; readonly onPicked: (rows: number) => void },
): Promise<void> {
  const sources = run.sources.filter(({ mapping }) => !mapping.turn.isFirst)
  if (sources.length === 0) return
  // Its own rows that go on to their next identifier too: another run may wait for them while this one waits for its rows.
  const cascading = run.sources.filter(goesOnAfterMiss).map(({ name }) => name)
  const options = { signal, onWait: logWait(deps.log, { step: 'pick' }) }
  for (let isLast = false; !isLast && !signal.aborted;) {
    isLast = !(await retryWhileUnavailable(() => group.mayReceive(deps.db, { sources }), options))
    if (run.isDryRun) await retryWhileUnavailable(() => advanceCascade(deps.db, run.id, cascading), options)
    const picked = await retryWhileUnavailable(() => pickOnce(deps, group, run, signal), options)
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
