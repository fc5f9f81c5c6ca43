import { adoptAbandonedLookups } from '../pipeline/pick/claim.ts'
import { repick } from '../pipeline/pick/pick.ts'
import { unlessBroken } from '../runs/source-health.ts'
import type { Workers } from '../runs/workers.ts'
import type { Source } from '../sources/source-model.ts'
import * as runProgress from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import {
  type LiveSyncDeps,
  type LiveSyncKind,
  LiveSyncRun,
  type LiveSyncRunOptions,
} from './live-sync-run.ts'

/** A service, as live sync uses it. */
export interface LiveSyncService {
  readonly deps: LiveSyncDeps
  readonly workers: Workers
}

interface Member extends LiveSyncService {
  readonly run: LiveSyncRun
}

/**
 * The runs of live sync that are open together, one for each service. What changes is picked into the run of a source's first service,
 * and goes on from there.
 */
export class LiveSyncRuns {
  readonly trigger: LiveSyncKind
  readonly budgetName: string | null
  readonly #members: readonly Member[]

  static async open(
    services: readonly LiveSyncService[],
    options: Omit<LiveSyncRunOptions, 'workers' | 'group'>,
  ): Promise<LiveSyncRuns> {
    const members: Member[] = []
    for (const service of services) {
      const sources = options.sources.filter((name) => service.deps.sources.has(name))
      if (sources.length === 0 && services.length > 1) continue
      const group = services.length === 1 ? {} : { group: members[0]?.run.id ?? null }
      const { deps, workers } = service
      members.push({
        ...service,
        run: await LiveSyncRun.open(deps, { ...options, sources, workers, ...group }),
      })
    }
    return new LiveSyncRuns(options, members)
  }

  private constructor(
    { trigger, budgetName }: Pick<LiveSyncRunOptions, 'trigger' | 'budgetName'>,
    members: readonly Member[],
  ) {
    this.trigger = trigger
    this.budgetName = budgetName
    this.#members = members
  }

  get hasFailed(): boolean {
    return this.#members.some(({ run }) => run.hasFailed)
  }

  get isCancelled(): boolean {
    return this.#members.some(({ run }) => run.isCancelled)
  }

  get isIdle(): boolean {
    return this.#members.every(({ run }) => run.isIdle)
  }

  get isExpired(): boolean {
    return this.#members.some(({ run }) => run.isExpired)
  }

  /** The run into which the changes of a source are picked. */
  firstOf({ name }: Source): Member | null {
    const isFirst = ({ deps }: Member): boolean => deps.sources.get(name)?.mapping.turn.isFirst === true
    return this.#members.find(isFirst) ?? null
  }

  /** The day's budget is spent. */
  markReached(): void {
    for (const { run } of this.#members) run.budget.markReached()
  }

  async hasWorkUnderWay(): Promise<boolean> {
    for (const { deps, run } of this.#members)
      if (await runProgress.hasWorkUnderWay(deps.db, run.id)) return true
    return false
  }

  async hasWaitingRows(): Promise<boolean> {
    for (const { deps, run } of this.#members)
      if ((await runProgress.findWaitingRows(deps.db, run.id, [...deps.sources.keys()])).hasWaiting)
        return true
    return false
  }

  /** Picks rows that wait to be picked again by these runs. @param isHandedOn only those that came from the service before */
  async repick(signal: AbortSignal, { isHandedOn }: { readonly isHandedOn: boolean }): Promise<void> {
    for (const { deps, run, workers } of this.#members) {
      const all = [...deps.sources.values()].filter(({ mapping }) => mapping.follow)
      const sources = isHandedOn ? all.filter(({ mapping }) => !mapping.turn.isFirst) : all
      const names = sources.map(({ name }) => name)
      if (names.length === 0) continue
      if (!(await runProgress.findWaitingRows(deps.db, run.id, names)).hasRequeued) continue
      const context = { id: run.id, budget: run.budget, service: run.service, isDryRun: false }
      const options = { includeAbandoned: false, signal }
      for (const source of sources) {
        const result = await unlessBroken(deps, source, () => repick(deps, context, source, options))
        if (isHandedOn) run.recordPicked(result?.repicked ?? 0)
      }
      workers.wakeCalls()
      workers.wakeWriters()
    }
  }

  /** Takes over the lookups that dead runs have left. */
  async adoptLookups(): Promise<void> {
    for (const { deps, run, workers } of this.#members) {
      const live = (await runs.listRunning(deps.db)).map((one) => one.id)
      await adoptAbandonedLookups(deps.db, run, live)
      workers.wakeCalls()
    }
  }

  async close(reason: 'done' | 'interrupted'): Promise<void> {
    for (const { run } of this.#members) await run.close(reason)
  }
}
