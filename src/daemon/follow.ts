import { randomUUID } from 'node:crypto'
import type { Deps } from '../pipeline/deps.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { pickKeys, type PickKeysOptions } from '../pipeline/pick/changed.ts'
import { pickAgain } from '../pipeline/pick/pick.ts'
import { adopt } from '../pipeline/pick/take.ts'
import type { RunReport } from '../pipeline/run/report.ts'
import type { Works } from '../pipeline/run/works.ts'
import type { Source } from '../sources/source.ts'
import * as callers from '../store/callers.ts'
import * as followed from '../store/followed.ts'
import * as pauses from '../store/pauses.ts'
import * as runs from '../store/runs.ts'
import * as waiting from '../store/waiting.ts'
import { ChangeList, MANY_A_TICK } from './change-list.ts'
import { OpenFollowingRun } from './following-run.ts'
import { Polling } from './polling.ts'

export interface FollowOptions {
  readonly sources: readonly Source[]
  readonly owner: string
  readonly scope: () => string
  readonly works: Works
  readonly budget: number | null
  readonly onEnded: (report: RunReport, trigger: 'follow' | 'backfill', sources: readonly string[]) => void
}

const TIDY_MS = 5_000
/** After a run that could not go on, the next one begins so much later; after each further one, twice as much. */
const PAUSE_MS = 30_000
const LONGEST_PAUSE_MS = 30 * 60_000

/** One process follows for all: two would only pick each other's keys. */
const SCOPE = 'follow'

/**
 * Follows the database: picks the rows whose keys the triggers have recorded, or that a poll has found, into runs that
 * stay open. What people change goes into a sync, before everything else; what they import, behind everything else.
 */
export class Follow {
  readonly #deps: Deps
  readonly #options: FollowOptions
  readonly #byName: ReadonlyMap<string, Source>
  readonly #names: readonly string[]
  /** Those that nobody has paused: what changes in the others stays on the list. */
  #active: readonly string[] = []
  readonly #polling: Polling
  readonly #token = randomUUID()
  readonly #open: Record<'follow' | 'backfill', OpenFollowingRun | null> = { follow: null, backfill: null }
  readonly #list: ChangeList
  #leads = false
  #askedAt = Number.NEGATIVE_INFINITY
  #tidiedAt = Number.NEGATIVE_INFINITY
  #nextAbandonedAt = Number.NEGATIVE_INFINITY
  #pausedUntil = Number.NEGATIVE_INFINITY
  #toldOfBudget = false
  /** Runs that could not go on, one after the other. */
  #broken = 0

  constructor(deps: Deps, options: FollowOptions) {
    this.#deps = deps
    this.#options = options
    this.#byName = new Map(options.sources.map((source) => [source.name, source]))
    this.#names = [...this.#byName.keys()]
    this.#list = new ChangeList(deps.db)
    this.#polling = new Polling(deps, options.sources)
  }

  /** Does one bounded batch. @returns how many keys it was done with */
  async tick(signal: AbortSignal): Promise<number> {
    if (this.#names.length === 0 || !(await this.#lead()) || performance.now() < this.#pausedUntil) return 0
    await this.#lookForPauses()
    await this.#tidy(signal)
    if (this.#active.length === 0) return 0
    await this.#polling.look(this.#active)
    const did =
      (await this.#pickChanged()) +
      (await this.#pickPolled()) +
      (await this.#pickAbandoned()) +
      (await this.#pickMany())
    if (did > 0) this.#options.works.wakeCalls()
    return did
  }

  /** Ends what is open, and lets another process follow at once. */
  async stop(): Promise<void> {
    await this.#close('follow', 'interrupted')
    await this.#close('backfill', 'interrupted')
    if (this.#leads) await callers.release(this.#deps.db, SCOPE, this.#token)
    this.#leads = false
  }

  async #lead(): Promise<boolean> {
    const now = performance.now()
    if (now - this.#askedAt < (this.#leads ? LEASE_MS / 5 : 1_000)) return this.#leads
    const { db, log } = this.#deps
    const leads = await callers.acquire(db, SCOPE, this.#token, this.#options.owner, LEASE_MS)
    this.#askedAt = now
    if (leads && !this.#leads) log.info({ sources: this.#names }, 'this process follows the database')
    if (!leads && this.#leads) log.warn('another process follows the database now')
    this.#leads = leads
    return leads
  }

  async #lookForPauses(): Promise<void> {
    const paused = await pauses.among(this.#deps.db, this.#names)
    this.#active = this.#names.filter((name) => !paused.includes(name))
  }

  /** Now and then: closes runs that are over, and picks up what was left lying. */
  async #tidy(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#tidiedAt < TIDY_MS) return
    this.#tidiedAt = performance.now()
    const { db } = this.#deps
    const today = await this.#budgetOfToday()
    for (const kind of ['follow', 'backfill'] as const) {
      const run = this.#open[kind]
      if (run === null) continue
      if (run.isBroken) {
        this.#pausedUntil = performance.now() + Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** this.#broken++)
        await this.#close(kind, 'done')
        continue
      }
      const isDone = run.isIdle && !(await waiting.anyWaiting(db, run.id))
      if (run.isOver || isDone || run.budgetName !== (today?.name ?? null)) {
        this.#broken = 0
        await this.#close(kind, 'done')
        continue
      }
      if (await waiting.anySentBack(db, run.id, this.#names))
        for (const source of this.#options.sources)
          await pickAgain(this.#deps, { ...pickedBy(run), dry: false }, source, { leftBehind: false, signal })
      const live = (await runs.live(db)).map((one) => one.id)
      await adopt(db, run, live)
      this.#options.works.wakeCalls()
    }
    const waits = this.#isUsedUp(today)
      ? this.#names
      : this.#names.filter((name) => !this.#active.includes(name))
    await this.#list.tidy(waits)
  }

  /** What dead runs had picked: as soon as one part of it is picked, the next. */
  async #pickAbandoned(): Promise<number> {
    if (performance.now() < this.#nextAbandonedAt) return 0
    const { db, log } = this.#deps
    const rows = await followed.abandoned(db, this.#active, MANY_A_TICK)
    let picked = 0
    for (const kind of ['follow', 'backfill'] as const)
      for (const source of this.#options.sources) {
        const keys = rows
          .filter((row) => row.trigger === kind && row.source === source.name)
          .map((row) => row.key)
        const run = keys.length === 0 ? null : await this.#runFor(kind)
        if (run === null) continue
        const leftOut = await this.#pick(run, source, keys, { settleGone: true })
        picked += keys.length - leftOut.length
      }
    if (picked > 0) log.info({ rows: picked }, 'rows that a dead run had picked are picked again')
    if (picked < MANY_A_TICK) this.#nextAbandonedAt = performance.now() + TIDY_MS
    return picked
  }

  async #pickChanged(): Promise<number> {
    const changes = await this.#list.next(this.#active)
    if (changes.length === 0) return 0
    const run = await this.#runFor('follow')
    if (run === null) return 0
    const done: followed.ChangedRows[] = []
    for (const [name, source] of this.#byName) {
      const own = changes.filter((one) => one.source === name)
      const leftOut = new Set(
        await this.#pick(
          run,
          source,
          own.flatMap((one) => one.keys),
        ),
      )
      done.push(...own.filter((one) => !one.keys.some((key) => leftOut.has(key))))
    }
    await this.#list.done(done)
    return done.length
  }

  async #pickPolled(): Promise<number> {
    let did = 0
    for (const { source, keys } of this.#polling.found(this.#active)) {
      const run = await this.#runFor('follow')
      if (run === null) return did
      const leftOut = await this.#pick(run, source, keys)
      // Those are found again: the poll goes on from where all was picked.
      await this.#polling.picked(source, leftOut.length === 0)
      did += keys.length - leftOut.length
    }
    return did
  }

  async #pickMany(): Promise<number> {
    const many = await this.#list.nextImport(this.#active)
    const source = many === null ? undefined : this.#byName.get(many.source)
    if (many === null || source === undefined) return 0
    const run = await this.#runFor('backfill')
    if (run === null) return 0
    const leftOut = await this.#pick(run, source, many.keys)
    if (leftOut.length > 0) return many.keys.length - leftOut.length
    await this.#list.pickedPart(many)
    return many.keys.length
  }

  /** @returns the keys that the budget would not pay */
  async #pick(
    run: OpenFollowingRun,
    source: Source,
    keys: readonly string[],
    options: PickKeysOptions = {},
  ): Promise<readonly string[]> {
    // A column of the key may be nullable, and a key be changed by several statements.
    const distinct = [...new Set(keys)].filter((key) => (key as string | null) !== null)
    if (distinct.length === 0) return []
    const { picked, leftOut } = await pickKeys(this.#deps, run, source, distinct, options)
    run.picked(picked)
    // Answers that are stored already need no call.
    if (picked > 0) this.#options.works.wakeWriters()
    if (leftOut.length > 0) this.#outOfBudget(run)
    return leftOut
  }

  /** The run that is open, or a new one. Null: the day's budget is used up. */
  async #runFor(kind: 'follow' | 'backfill'): Promise<OpenFollowingRun | null> {
    const open = this.#open[kind]
    const { db, log } = this.#deps
    const { budget, owner, scope, works } = this.#options
    const today = await this.#budgetOfToday()
    if (this.#isUsedUp(today)) {
      if (open !== null) this.#outOfBudget(open)
      this.#pausedUntil = performance.now() + PAUSE_MS
      return null
    }
    if (open !== null && open.budgetName === (today?.name ?? null)) return open
    await this.#close(kind, 'done')
    this.#toldOfBudget = false
    const run = await OpenFollowingRun.open({
      db,
      log,
      owner,
      scope,
      service: this.#deps.service,
      works,
      sources: this.#names,
      trigger: kind,
      budget,
      budgetName: today?.name ?? null,
      onEnded: (report) => this.#options.onEnded(report, kind, this.#names),
    })
    this.#open[kind] = run
    return run
  }

  /** Null: nothing bounds it. */
  async #budgetOfToday(): Promise<followed.DayBudget | null> {
    return this.#options.budget === null ? null : followed.budgetOfToday(this.#deps.db)
  }

  #isUsedUp(today: followed.DayBudget | null): boolean {
    return today !== null && today.spent >= (this.#options.budget ?? Number.POSITIVE_INFINITY)
  }

  #outOfBudget(run: OpenFollowingRun): void {
    if (this.#toldOfBudget) return
    this.#toldOfBudget = true
    run.budget.leaveOut(1)
    this.#deps.log.warn(
      { run: run.id, budget: this.#options.budget },
      'the budget of the day is used up: changes wait for the next day (UTC)',
    )
  }

  async #close(kind: 'follow' | 'backfill', reason: 'done' | 'interrupted'): Promise<void> {
    const run = this.#open[kind]
    this.#open[kind] = null
    await run?.close(reason)
  }
}

const pickedBy = ({ id, budget, service }: OpenFollowingRun) => ({ id, budget, service })
