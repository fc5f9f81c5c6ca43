import * as changedRows from '../store/changed-rows.ts'
import * as pauses from '../store/source-state.ts'
import * as leases from '../store/rate-limits.ts'
import { randomUUID } from 'node:crypto'
import { LEASE_MS, type Deps } from '../pipeline/deps.ts'
import { pickChangedKeys, type PickKeysOptions } from '../pipeline/pick/read-phase.ts'
import { firstOf } from '../runs/run-part.ts'
import { isFit, unlessBroken, checkBreakage } from '../runs/source-health.ts'
import type { Source } from '../sources/source-model.ts'
import { readDayBudget } from '../store/budgets.ts'
import type { Database } from '../store/open.ts'
import {
  LIVE_SYNC_KINDS,
  LiveSyncRun,
  type LiveSyncDeps,
  type LiveSyncKind,
  type LiveSyncService,
} from './live-sync-run.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { readTriggerState } from '../sources/triggers/install.ts'

interface LiveSyncOptions {
  /** Each as its first service fills it. */
  readonly sources: readonly Source[]
  /** Lookups a day. Null: unlimited. */
  readonly budget: number | null
  /** Called with why changes of sources may be missed, by source. */
  readonly onTriggersChecked: (missing: ReadonlyMap<string, string>) => Promise<void>
}

const MAINTENANCE_MS = 5_000
/** Delay before the next run after a failed one; doubled after each further failure. */
const FAILURE_PAUSE_MS = 30_000
const MAX_FAILURE_PAUSE_MS = 30 * 60_000

/** One process at a time runs live sync: two would pick each other's keys. */
const LEASE_SCOPE = 'follow'

/**
 * Live sync: picks changed rows, as recorded by the triggers, into runs that stay open. Single edits go into a `sync`
 * run with the highest priority, imports into a `backfill` run with the lowest.
 */
export class LiveSync {
  readonly #services: readonly LiveSyncService[]
  /** For what is done for no service in particular. */
  readonly #deps: Pick<LiveSyncDeps, 'db' | 'log' | 'owner'>
  readonly #options: LiveSyncOptions
  readonly #byName: ReadonlyMap<string, Source>
  readonly #names: readonly string[]
  /** Sources that are neither paused nor broken. Changes in the others stay in the queue. */
  #active: readonly string[] = []
  readonly #triggers: TriggerWatch
  readonly #token = randomUUID()
  readonly #openRuns: Record<LiveSyncKind, LiveSyncRun | null> = { follow: null, backfill: null }
  readonly #queue: ChangeQueue
  /** As of the last `#refreshBudget`: the transaction that claims lookups has the last word. */
  #isBudgetSpent = false
  #isLeader = false
  #leadershipCheckedAt = Number.NEGATIVE_INFINITY
  #maintainedAt = Number.NEGATIVE_INFINITY
  #nextAbandonedAt = Number.NEGATIVE_INFINITY
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** Consecutive failed runs. */
  #consecutiveFailures = 0

  /** @param services of the configuration, in their order; one at least */
  constructor(services: readonly LiveSyncService[], options: LiveSyncOptions) {
    const { deps } = firstOf(services)
    this.#services = services
    this.#deps = deps
    this.#options = options
    this.#byName = new Map(options.sources.map((source) => [source.name, source]))
    this.#names = [...this.#byName.keys()]
    this.#queue = new ChangeQueue(deps.db)
    this.#triggers = new TriggerWatch(deps, options.sources)
  }

  /**
   * Picks one bounded batch.
   * @returns the number of keys picked
   */
  async tick(signal: AbortSignal): Promise<number> {
    if (this.#names.length === 0 || !(await this.#renewLeadership())) return 0
    const missing = await this.#triggers.check()
    if (missing !== null) await this.#options.onTriggersChecked(missing)
    if (performance.now() < this.#pausedUntil) return 0
    await this.#refreshPauses()
    await this.#closeCancelled()
    await this.#maintain(signal)
    if (this.#active.length === 0) return 0
    const picked = (await this.#pickChanged()) + (await this.#pickAbandoned()) + (await this.#pickBulk())
    if (picked > 0) for (const { workers } of this.#services) workers.wakeCalls()
    if (this.#services.length > 1)
      for (const kind of LIVE_SYNC_KINDS) await this.#openRuns[kind]?.repick(signal, { isUnpaidTried: false })
    return picked
  }

  /** Closes open runs, and lets another process take over at once. */
  async stop(): Promise<void> {
    await this.#closeRun('follow', 'interrupted')
    await this.#closeRun('backfill', 'interrupted')
    if (this.#isLeader) await leases.releaseLease(this.#deps.db, LEASE_SCOPE, this.#token)
    this.#isLeader = false
  }

  /**
   * Closes cancelled runs once nothing of them is under way. What they have picked is left to the next
   * scheduled or manual run.
   */
  async #closeCancelled(): Promise<void> {
    for (const kind of LIVE_SYNC_KINDS) {
      const run = this.#openRuns[kind]
      if (run?.isCancelled === true && !(await run.hasWorkUnderWay()))
        await this.#closeRun(kind, 'interrupted')
    }
  }

  async #renewLeadership(): Promise<boolean> {
    const now = performance.now()
    if (now - this.#leadershipCheckedAt < (this.#isLeader ? LEASE_MS / 5 : 1_000)) return this.#isLeader
    const { db, log, owner } = this.#deps
    const leads = await leases.acquireLease(db, LEASE_SCOPE, this.#token, owner, LEASE_MS)
    this.#leadershipCheckedAt = now
    if (leads && !this.#isLeader)
      log.info({ event: 'live_sync_started', sources: this.#names }, 'this process runs live sync')
    if (!leads && this.#isLeader)
      log.warn({ event: 'live_sync_taken_over' }, 'another process took over live sync')
    this.#isLeader = leads
    return leads
  }

  async #refreshPauses(): Promise<void> {
    const paused = await pauses.filterPaused(this.#deps.db, this.#names)
    const fit = this.#options.sources.filter(isFit).map(({ name }) => name)
    this.#active = fit.filter((name) => !paused.includes(name))
  }

  /** Periodically closes finished runs and picks up leftovers. */
  async #maintain(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#maintainedAt < MAINTENANCE_MS) return
    this.#maintainedAt = performance.now()
    const budgetName = await this.#refreshBudget()
    for (const kind of LIVE_SYNC_KINDS) {
      const run = this.#openRuns[kind]
      if (run === null) continue
      if (run.hasFailed) {
        this.#pausedUntil =
          performance.now() +
          Math.min(MAX_FAILURE_PAUSE_MS, FAILURE_PAUSE_MS * 2 ** this.#consecutiveFailures++)
        await this.#closeRun(kind, 'done')
        continue
      }
      const isDone = run.isIdle && !(await run.hasWaitingRows())
      if (run.isExpired || isDone || run.budgetName !== budgetName) {
        this.#consecutiveFailures = 0
        await this.#closeRun(kind, 'done')
        continue
      }
      await run.repick(signal, { isUnpaidTried: true })
      await run.adoptLookups()
    }
    const picked = this.#payable
    await this.#queue.maintain(this.#names.filter((name) => !picked.includes(name)))
  }

  /** The sources whose lookups can still be paid today. */
  get #payable(): readonly string[] {
    return this.#isBudgetSpent ? [] : this.#active
  }

  /**
   * Reads what is spent today (UTC). A budget that is used up is a condition, which is logged as one.
   * @returns the name of today's budget, which the runs of the day share; null: it is unlimited
   */
  async #refreshBudget(): Promise<string | null> {
    const { budget } = this.#options
    if (budget === null) return null
    const { name, spent } = await readDayBudget(this.#deps.db)
    this.#isBudgetSpent = spent >= budget
    return name
  }

  /** Picks rows abandoned by dead runs, in batches. */
  async #pickAbandoned(): Promise<number> {
    if (performance.now() < this.#nextAbandonedAt) return 0
    const { db, log } = this.#deps
    const rows = await changedRows.listAbandonedChanges(db, this.#active, BULK_KEYS_PER_TICK)
    let picked = 0
    for (const kind of LIVE_SYNC_KINDS)
      for (const source of this.#options.sources) {
        const keys = rows
          .filter((row) => row.trigger === kind && row.source === source.name)
          .map((row) => row.key)
        const run = keys.length === 0 ? null : await this.#openRun(kind)
        if (run === null) continue
        const skippedKeys = await this.#pick(run, source, keys, { finishMissing: true })
        picked += keys.length - skippedKeys.length
      }
    if (picked > 0)
      log.info({ event: 'live_sync_requeued', rows: picked }, 're-queued rows abandoned by a dead run')
    if (picked < BULK_KEYS_PER_TICK) this.#nextAbandonedAt = performance.now() + MAINTENANCE_MS
    return picked
  }

  async #pickChanged(): Promise<number> {
    const changes = await this.#queue.next(this.#payable)
    if (changes.length === 0) return 0
    const run = await this.#openRun('follow')
    if (run === null) return 0
    const skipped = new Map<string, ReadonlySet<string>>()
    for (const [name, source] of this.#byName) {
      const changed = changes.filter(({ source }) => source === name)
      const keys = changed.flatMap(({ keys }) => keys)
      const seenGone = changed.flatMap(({ isDelete, keys }) => (isDelete ? keys : []))
      skipped.set(name, new Set(await this.#pick(run, source, keys, { seenGone })))
    }
    return this.#queue.advance(changes, skipped)
  }

  async #pickBulk(): Promise<number> {
    const bulk = await this.#queue.nextBulkPart(this.#payable)
    const source = bulk === null ? undefined : this.#byName.get(bulk.source)
    if (bulk === null || source === undefined) return 0
    const run = await this.#openRun('backfill')
    if (run === null) return 0
    const seenGone = bulk.isDelete ? bulk.keys : []
    const skippedKeys = await this.#pick(run, source, bulk.keys, { seenGone })
    await this.#queue.advanceBulk(bulk, skippedKeys)
    return bulk.keys.length - skippedKeys.length
  }

  /** @returns the keys that exceed the budget, or all of a source that is broken */
  async #pick(
    run: LiveSyncRun,
    source: Source,
    keys: readonly string[],
    options: PickKeysOptions = {},
  ): Promise<readonly string[]> {
    // A key column may be nullable, and several statements may change one key.
    const distinct = [...new Set(keys)].filter((key) => (key as string | null) !== null)
    if (distinct.length === 0) return []
    const part = run.firstOf(source)
    if (part === null) return keys
    const pick = () => pickChangedKeys(part.deps, part, source, distinct, options)
    const result = await unlessBroken(part.deps, source, pick)
    if (result === null) return keys
    const { picked, skippedKeys } = result
    run.recordPicked(picked)
    // Stored answers need no call.
    if (picked > 0) part.workers.wakeWriters()
    if (skippedKeys.length > 0) {
      part.budget.markReached()
      await this.#refreshBudget()
    }
    return skippedKeys
  }

  /** The open run, or a new one. Null if the day's budget is spent. */
  async #openRun(kind: LiveSyncKind): Promise<LiveSyncRun | null> {
    const budgetName = await this.#refreshBudget()
    const open = this.#openRuns[kind]
    if (this.#isBudgetSpent) {
      open?.markReached()
      return null
    }
    if (open !== null && !open.isCancelled && open.budgetName === budgetName) return open
    await this.#closeRun(kind, 'done')
    const run = await LiveSyncRun.open(this.#services, {
      sources: this.#names,
      trigger: kind,
      budget: this.#options.budget,
      budgetName,
    })
    this.#openRuns[kind] = run
    return run
  }

  async #closeRun(kind: LiveSyncKind, reason: 'done' | 'interrupted'): Promise<void> {
    const run = this.#openRuns[kind]
    this.#openRuns[kind] = null
    await run?.close(reason)
  }
}

/** Keys picked per tick. Few, so that the first ones need not wait for the last. */
const KEYS_PER_TICK = 250
/** Keys of a bulk change picked per tick. */
const BULK_KEYS_PER_TICK = 1_000

/**
 * The queue of changes that the triggers fill, read by the live sync process at READ COMMITTED, as with
 * `inTransaction`.
 */
export class ChangeQueue {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  next(sources: readonly string[]): Promise<changedRows.ChangedRows[]> {
    return this.#transact((tx) => changedRows.listChangedRows(tx, sources, KEYS_PER_TICK))
  }

  /**
   * Removes picked changes.
   * @param skipped the keys of each source that a budget could not pay: they stay
   * @returns how many were picked whole
   */
  async advance(
    changes: readonly changedRows.ChangedRows[],
    skipped: ReadonlyMap<string, ReadonlySet<string>>,
  ): Promise<number> {
    const read = changes.map((change) => ({
      ...change,
      read: change.keys.length,
      skipped: change.keys.filter((key) => skipped.get(change.source)?.has(key)),
    }))
    const picked = read.filter(({ skipped }) => skipped.length === 0)
    await this.#transact(async (tx) => {
      await changedRows.removeChanges(tx, picked)
      await changedRows.keepSkippedKeys(
        tx,
        read.filter((change) => change.skipped.length > 0 && change.skipped.length < change.read),
      )
    })
    return picked.length
  }

  /** The next part of the oldest bulk change. */
  nextBulkPart(sources: readonly string[]): Promise<changedRows.BulkChange | null> {
    return this.#transact((tx) => changedRows.nextBulkChange(tx, sources, BULK_KEYS_PER_TICK))
  }

  /** Advances past a picked part; removes the bulk change after its last one. @param skipped the keys that stay */
  async advanceBulk(part: changedRows.BulkChange, skipped: readonly string[]): Promise<void> {
    if (skipped.length === part.keys.length) return
    const read = part.picked + part.keys.length
    await this.#transact((tx) =>
      skipped.length === 0
        ? changedRows.advanceBulkChange(tx, part)
        : changedRows.keepSkippedKeys(tx, [{ ...part, skipped, read }]),
    )
  }

  /** @param waiting sources that are not picked from at present */
  async maintain(waiting: readonly string[]): Promise<void> {
    await this.#transact((tx) => changedRows.mergeChanges(tx, waiting, KEYS_PER_TICK))
  }

  #transact<T>(act: (tx: Tx) => Promise<T>): Promise<T> {
    return inTransaction(this.#db, act)
  }
}

/** How often the triggers are checked, by two statements a source. */
const CHECK_MS = 10_000

/** Watches the triggers of the followed sources: without them changes wait for the next scheduled run. */
export class TriggerWatch {
  readonly #deps: Pick<Deps, 'db' | 'log'>
  readonly #sources: readonly Source[]
  /** By source, why its triggers may miss changes. */
  readonly #missing = new Map<string, string>()
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(deps: Pick<Deps, 'db' | 'log'>, sources: readonly Source[]) {
    this.#deps = deps
    this.#sources = sources
  }

  /**
   * Checks the triggers of all sources.
   * @returns by source, why changes may be missed; null: they were checked a moment ago
   */
  async check(): Promise<ReadonlyMap<string, string> | null> {
    const now = performance.now()
    if (now - this.#checkedAt < CHECK_MS) return null
    this.#checkedAt = now
    for (const source of this.#sources)
      await unlessBroken(this.#deps, source, () => this.#checkSource(source))
    return new Map(this.#missing)
  }

  async #checkSource(source: Source): Promise<void> {
    const there = await readTriggerState(this.#deps.db, source)
    if (there.state === 'right') this.#missing.delete(source.name)
    // Those of a table that is gone are part of its condition.
    else if (!(await checkBreakage(this.#deps, source)))
      this.#missing.set(source.name, there.state === 'wrong' ? there.why : 'its triggers are not there')
  }
}
