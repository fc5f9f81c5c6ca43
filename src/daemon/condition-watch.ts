import { setTimeout as sleep } from 'node:timers/promises'
import {
  toOutageCondition,
  describeCondition,
  SCHEMA_OUTDATED,
  type ConditionDetails,
  type DatabaseOutage,
} from '../domain/condition.ts'
import {
  addRefusal,
  describeRefusal,
  isRefusing,
  isSuspected,
  refusalOf,
  type Refusals,
} from '../domain/refusal.ts'
import { logBegin, logChanges, logEnd } from '../runs/source-health.ts'
import type { Observer } from '../store/condition-facts.ts'
import { recordConditions, recordOutage, type StoredCondition } from '../store/conditions.ts'
import { isTransient, tryWrite, isConflict } from '../store/transaction.ts'
import type { Database, OpenOptions } from '../store/open.ts'
import { reportRefusal } from '../store/processes.ts'
import { acceptKey, listRefusedKeys, refuseKey } from '../store/rate-limits.ts'
import { describeError, FillrateError } from '../util/error-text.ts'
import { formatDuration } from '../util/text.ts'
import type { Log } from '../util/log.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'
import type { Notifier } from './notifier.ts'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { WorkMetrics } from '../pipeline/metrics-recorder.ts'
import { WakeSignal } from '../util/wake-signal.ts'

export interface ConditionWatchOptions extends WatchedProcess {
  /** How long before the first look, in milliseconds. Default: 0. */
  readonly delayMs?: number
}

interface WatchedProcess {
  readonly db: Database
  readonly log: Log
  readonly state: ProcessState
  /** When each schedule of the configuration was due last; null: none is loaded yet. */
  readonly schedules: () => Observer['schedules']
  /** How this process notifies. Null, or absent: it does not know whom yet. */
  readonly notifier?: () => Pick<Notifier, 'send' | 'release' | 'notifyOfOutage'> | null
}

const INTERVAL_MS = 2_000
/** While Postgres is away: its return is noticed at once, and what keeps it away may change. */
const AWAY_INTERVAL_MS = 1_000
/** How long an answer of Postgres may take; a later one counts as none. */
const TIMEOUT_MS = 10_000
const STOP_MS = 1_000
/** How long stopping waits for a slow target of notifications: another process sends them then. */
const LAST_SEND_MS = 15_000
/** After an error that waiting does not explain. */
const RESTART_MS = 60_000

/** Watches conditions until it is stopped. */
interface ConditionWatch {
  /** Looks once more, sends what is due, and ends. Never throws. */
  stop(): Promise<void>
}

/**
 * Records and logs every two seconds which conditions begin and end, and stores what only this process knows of them. Every process
 * does; each begin and each end is recorded, logged and notified of by one. While Postgres is away, each process logs that once.
 */
export function startConditionWatch(options: ConditionWatchOptions): ConditionWatch {
  const { delayMs = 0, log, state } = options
  const ticker = new ConditionTicker(options)
  const stopped = new AbortController()
  const wakeUps = state.changed.listen()
  const loop = (async () => {
    if (delayMs > 0) {
      // It finds out at once whether it is the one that notifies.
      ticker.send()
      await wakeUps.wait(delayMs, stopped.signal)
    }
    while (!stopped.signal.aborted) {
      const pauseMs = await ticker.tick().then(
        () => (state.findOutage() === null ? INTERVAL_MS : AWAY_INTERVAL_MS),
        (error: unknown) => {
          const reason = describeError(error)
          log.error(
            { event: 'task_failed', task: 'conditions', reason },
            'conditions cannot be watched; trying again',
          )
          return RESTART_MS
        },
      )
      await wakeUps.wait(pauseMs, stopped.signal)
    }
  })()
  return {
    stop: async () => {
      stopped.abort()
      const last = loop.then(() => ticker.tick()).catch(() => {})
      await Promise.race([last, sleep(STOP_MS, undefined, { ref: false })])
      await Promise.race([ticker.sendLast(), sleep(LAST_SEND_MS, undefined, { ref: false })])
    },
  }
}

/** One look at a time. A test calls it by hand. */
export class ConditionTicker {
  readonly #process: WatchedProcess
  /** The outage that was logged, and when it was looked at last. */
  #logged: (DatabaseOutage & { readonly at: number }) | null = null
  /** `began KEY` of the targets that were notified of the outage from memory, until it is stored. */
  #acceptedBy: readonly string[] = []
  #sending: Promise<void> | null = null

  constructor(process: WatchedProcess) {
    this.#process = process
  }

  /** Never throws for want of Postgres or its schema. */
  async tick(): Promise<void> {
    const { state, log } = this.#process
    const look = this.#look()
    let isStored = false
    try {
      logChanges(log, await Promise.race([look, failAfter(TIMEOUT_MS)]))
      isStored = true
    } catch (error) {
      // What it still records, no other process logs.
      look.then((late) => logChanges(log, late)).catch(() => {})
      if (isTransient(error) || error instanceof DatabaseUnusableError) state.setAway(toAwayDetails(error))
      // Without the schema there is nothing to watch, and nowhere to store an outage. What waits for it says so.
      else if (isMissingTable(error)) state.clearAway()
      else throw error
    }
    this.#logOutage()
    if (isStored) this.send()
    else this.#notifyOfOutage()
  }

  async #look(): Promise<StoredCondition[]> {
    const { db, state, schedules } = this.#process
    if (state.suspectsRefusal) await tryWrite(db)
    const refusal = state.findRefusal()
    if (refusal !== null) state.setAway({ sqlstate: refusal.sqlState }, refusal.firstAt)
    const outage = state.findOutage()
    // First: what an outage delays is no condition of its own.
    if (outage !== null && outage.forMs > 0) {
      await reportRefusal(db, state.owner, refusal?.sqlState ?? null)
      const acceptedBy = this.#acceptedBy
      await recordOutage(db, { ...outage, acceptedBy })
      this.#acceptedBy = this.#acceptedBy.slice(acceptedBy.length)
      if (refusal === null) state.clearAway()
    }
    await state.storeKeyNews(db)
    const changed = await recordConditions(db, { schedules: schedules() })
    // What a process knows itself, it logs itself.
    return changed.filter(({ kind }) => kind !== 'database_away')
  }

  #logOutage(): void {
    const { state, log } = this.#process
    const outage = state.findOutage()
    const before = this.#logged
    const isSame = outage?.details.cause === before?.details.cause
    if (before !== null && (outage === null || !isSame))
      logEnd(log, toOutageCondition(before, Date.now()), before.forMs + performance.now() - before.at)
    if (outage !== null && (before === null || !isSame)) logBegin(log, toOutageCondition(outage, Date.now()))
    this.#logged = outage && { ...outage, at: performance.now() }
  }

  /** Sends notifications, if no other process does. Not awaited: a target that does not answer would delay the next look. */
  send(): void {
    const { db, log, notifier } = this.#process
    const send = async (): Promise<unknown> => notifier?.()?.send(db)
    this.#sending ??= send()
      .catch((error: unknown) => {
        if (isTransient(error) || isConflict(error)) return
        const reason = describeError(error)
        log.error(
          { event: 'task_failed', task: 'notify', reason },
          'notifications cannot be sent; trying again',
        )
        return sleep(RESTART_MS, undefined, { ref: false })
      })
      .then(() => {
        this.#sending = null
      })
  }

  /** Sends what is due of a single run: the next process would send it too, perhaps tomorrow. Then another process may. Never throws. */
  async sendLast(): Promise<void> {
    const { db, state, notifier } = this.#process
    await this.#sending
    const last = state.findOutage() === null ? notifier?.() : null
    await last
      ?.send(db)
      .then(() => last.release(db))
      .catch(() => {})
  }

  /** While nothing can be stored, one process notifies from its memory. The end is stored, and notified of, as any other. */
  #notifyOfOutage(): void {
    const outage = this.#process.state.findOutage()
    if (outage === null) return
    // Not awaited: a target that does not answer would delay the next look.
    void this.#process
      .notifier?.()
      ?.notifyOfOutage(toOutageCondition(outage, Date.now()), this.#acceptedBy)
      .then((accepted) => (this.#acceptedBy = [...this.#acceptedBy, ...accepted]))
  }
}

/** Postgres does not answer in time. */
class DatabaseUnusableError extends FillrateError {
  override readonly name = 'DatabaseUnusableError'
}

const failAfter = (ms: number): Promise<never> =>
  sleep(ms, undefined, { ref: false }).then(() => {
    throw new DatabaseUnusableError(`no response within ${formatDuration(ms)}`)
  })

function toAwayDetails(error: unknown): ConditionDetails {
  const code = networkErrorCode(error)
  return describeRefusal(code) === null
    ? { reason: networkErrorMeaning(code) ?? describeError(error) }
    : { sqlstate: code ?? undefined }
}

/** SQLSTATEs of a table, column, function or schema that does not exist. */
const isMissingTable = (error: unknown): boolean =>
  ['42P01', '42703', '42883', '3F000'].includes(networkErrorCode(error) ?? '')

/** What only this process knows, and what it has counted. */
export class ProcessState {
  /** Identifies this process; unique for each start, so that it is never mistaken for an earlier one. */
  readonly owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  /** Notified of news, and when a connection to Postgres was lost: a restart may be over before the next look. */
  readonly changed = new WakeSignal()
  readonly metrics = new WorkMetrics()
  /** The schema does not fit this version. */
  isSchemaOutdated = false
  #away: { readonly details: ConditionDetails; readonly since: number } | null = null
  #refusals: Refusals | null = null
  /** By scope: what stores that its key was refused, or accepted again, as a call of this process has just found out. */
  readonly #keyNews = new Map<string, (db: Database) => Promise<unknown>>()
  /** The keys that were refused here, or in another process, and not accepted since. */
  #refused: ReadonlySet<string> = new Set()

  /** For a pool of connections to Postgres: what the server refuses, and when a connection is lost. */
  watchConnections(log: Log): Pick<OpenOptions, 'onServerError' | 'onLost'> {
    return {
      onServerError: (error) => this.noteServerError(error),
      onLost: (error) => {
        this.changed.notify()
        log.debug(
          { event: 'postgres_connection_lost', reason: describeError(error) },
          'an idle connection to Postgres was lost',
        )
      },
    }
  }

  /** Notes an error of Postgres. One that a function of the user's raises is about its row. */
  noteServerError(error: unknown, now = performance.now()): void {
    const sqlState = refusalOf(error)
    if (sqlState === null) return
    const before = this.#refusals
    this.#refusals = addRefusal(before, sqlState, now)
    if (isRefusing(this.#refusals, now) !== isRefusing(before, now)) this.changed.notify()
  }

  /** How Postgres refuses statements at the moment; null: it does not. */
  findRefusal(now = performance.now()): Refusals | null {
    return isRefusing(this.#refusals, now) ? this.#refusals : null
  }

  get suspectsRefusal(): boolean {
    return isSuspected(this.#refusals, performance.now())
  }

  /** Postgres is away, or still is. @param since by `performance.now()` */
  setAway(details: ConditionDetails, since = performance.now()): void {
    const before = this.#away
    this.#away = { details, since: before?.since ?? since }
    if (before === null) this.changed.notify()
  }

  /** Postgres is back. */
  clearAway(): void {
    if (this.#away === null) return
    this.#away = null
    this.#refusals = null
    this.changed.notify()
  }

  /** What keeps this process from Postgres; null: nothing. */
  findOutage(now = performance.now()): DatabaseOutage | null {
    if (this.#away !== null) return { details: this.#away.details, forMs: now - this.#away.since }
    return this.isSchemaOutdated ? { details: SCHEMA_OUTDATED, forMs: 0 } : null
  }

  /** The same in words. */
  describeOutage(): string | null {
    const outage = this.findOutage()
    const now = Date.now()
    return outage === null ? null : describeCondition(toOutageCondition(outage, now), now).title
  }

  /** The service of a number rejects a key. @param reason in its words; null: it was refused before, and no call was made */
  refuseKey(scope: string, service: number, reason: string | null): void {
    this.#refused = new Set([...this.#refused, scope])
    this.#keyNews.set(scope, (db) => refuseKey(db, { scope, service }, reason))
    this.changed.notify()
  }

  /** The service has accepted a call with a key: whichever process has found it rejected before, it is not now. */
  acceptKey(scope: string): void {
    if (!this.#refused.has(scope)) return
    this.#refused = new Set([...this.#refused].filter((other) => other !== scope))
    this.#keyNews.set(scope, (db) => acceptKey(db, scope))
    this.changed.notify()
  }

  /** Stores what this process knows of keys, and reads what any process does. News that cannot be stored stay. */
  async storeKeyNews(db: Database): Promise<void> {
    for (const [scope, store] of this.#keyNews) {
      await store(db)
      // Not if there are later news of the same key.
      if (this.#keyNews.get(scope) === store) this.#keyNews.delete(scope)
    }
    this.#refused = new Set([...(await listRefusedKeys(db)), ...this.#keyNews.keys()])
  }
}
