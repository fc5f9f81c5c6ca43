import { setTimeout as sleep } from 'node:timers/promises'
import { type ConditionDetails, type DatabaseOutage, toOutageCondition } from '../domain/condition.ts'
import { describeRefusal } from '../domain/refusal.ts'
import { logBegin, logChanges, logEnd } from '../runs/condition-log.ts'
import type { Observer } from '../store/condition-facts.ts'
import { recordConditions, recordOutage, type StoredCondition } from '../store/conditions.ts'
import { isTransient, tryWrite } from '../store/connectivity.ts'
import type { Database } from '../store/open.ts'
import { isConflict } from '../store/transaction.ts'
import { reportProblem, reportRefusal } from '../store/processes.ts'
import { acceptKey, listRefusedKeys, refuseKey } from '../store/rate-limits.ts'
import { describeError, FillrateError } from '../util/error-text.ts'
import { formatDuration } from '../util/format.ts'
import type { Log } from '../util/log.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'
import type { Notifier } from './notifier.ts'
import type { ProcessState } from './process-state.ts'

export interface ConditionWatchOptions extends WatchedProcess {
  /** How long before the first look, in milliseconds. Default: 0. */
  readonly delayMs?: number
}

interface WatchedProcess {
  readonly db: Database
  readonly log: Log
  readonly own: ProcessState
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
  const { delayMs = 0, log, own } = options
  const ticker = new ConditionTicker(options)
  const stopped = new AbortController()
  const wakeUps = own.changed.listen()
  const loop = (async () => {
    if (delayMs > 0) {
      // It finds out at once whether it is the one that notifies.
      ticker.send()
      await wakeUps.wait(delayMs, stopped.signal)
    }
    while (!stopped.signal.aborted) {
      const pauseMs = await ticker.tick().then(
        () => (own.findOutage() === null ? INTERVAL_MS : AWAY_INTERVAL_MS),
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
  #reportedProblem: string | null = null
  /** `began KEY` of the targets that were notified of the outage from memory. */
  #acceptedBy: readonly string[] = []
  #sending: Promise<void> | null = null

  constructor(process: WatchedProcess) {
    this.#process = process
  }

  /** Never throws for want of Postgres or its schema. */
  async tick(): Promise<void> {
    const { own, log } = this.#process
    const look = this.#look()
    let isStored = false
    try {
      logChanges(log, await withTimeout(look, TIMEOUT_MS))
      isStored = true
    } catch (error) {
      // What it still records, no other process logs.
      look.then((late) => logChanges(log, late)).catch(() => {})
      if (isTransient(error) || error instanceof DatabaseUnusableError)
        own.setAway(toAwayDetails(error, own.name))
      // Without the schema there is nothing to watch, and nowhere to store an outage. What waits for it says so.
      else if (isMissingTable(error)) own.clearAway()
      else throw error
    }
    this.#logOutage()
    if (isStored) this.send()
    else this.#notifyOfOutage()
  }

  async #look(): Promise<StoredCondition[]> {
    const { db, own, schedules } = this.#process
    if (own.suspectsRefusal) await tryWrite(db)
    const refusal = own.findRefusal()
    if (refusal !== null) own.setAway({ sqlstate: refusal.sqlState, process: own.name }, refusal.firstAt)
    const outage = own.findOutage()
    // First: what it has delayed is no condition of its own.
    if (outage !== null && outage.forMs > 0) {
      await reportRefusal(db, own.owner, refusal?.sqlState ?? null)
      await recordOutage(db, { ...outage, acceptedBy: this.#acceptedBy })
      this.#acceptedBy = []
      if (refusal === null) own.clearAway()
    }
    await this.#storeKeyNews()
    if (own.reloadProblem !== this.#reportedProblem) await reportProblem(db, own.owner, own.reloadProblem)
    this.#reportedProblem = own.reloadProblem
    const changed = await recordConditions(db, { schedules: schedules() })
    own.noteRefusedKeys(await listRefusedKeys(db))
    // What a process knows itself, it logs itself.
    return changed.filter(({ kind }) => kind !== 'database_away')
  }

  async #storeKeyNews(): Promise<void> {
    const { db, own } = this.#process
    const news = own.takeKeyNews()
    try {
      for (const one of news)
        await (one.isAccepted ? acceptKey(db, [one.scope]) : refuseKey(db, one, one.reason))
    } catch (error) {
      own.putBackKeyNews(news)
      throw error
    }
  }

  #logOutage(): void {
    const { own, log } = this.#process
    const outage = own.findOutage()
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
    const { db, own, notifier } = this.#process
    await this.#sending
    const last = own.findOutage() === null ? notifier?.() : null
    await last
      ?.send(db)
      .then(() => last.release(db))
      .catch(() => {})
  }

  /** While nothing can be stored, one process notifies from its memory. The end is stored, and notified of, as any other. */
  #notifyOfOutage(): void {
    const outage = this.#process.own.findOutage()
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

async function withTimeout<Result>(work: Promise<Result>, ms: number): Promise<Result> {
  // It ends later with an error that then says nothing new.
  work.catch(() => {})
  const isLate = Symbol('late')
  const first = await Promise.race([work, sleep(ms, isLate, { ref: false })])
  if (first === isLate) throw new DatabaseUnusableError(`no response within ${formatDuration(ms)}`)
  return first as Result
}

function toAwayDetails(error: unknown, process: string): ConditionDetails {
  const code = networkErrorCode(error)
  return describeRefusal(code) === null
    ? { reason: networkErrorMeaning(code) ?? describeError(error), process }
    : { sqlstate: code ?? undefined, process }
}

/** SQLSTATEs of a table, column, function or schema that does not exist. */
const isMissingTable = (error: unknown): boolean =>
  ['42P01', '42703', '42883', '3F000'].includes(networkErrorCode(error) ?? '')
