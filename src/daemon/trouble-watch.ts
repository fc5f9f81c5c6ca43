import { describeError, FillrateError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { lookForTroubles, troubleId, type TroubleSight } from '../actions/troubles.ts'
import type { OwnTrouble } from '../domain/trouble-facts.ts'
import { type TroubleCode, TROUBLE_CODES, toTroubleKind } from '../domain/trouble.ts'
import { logTroubleBegin, logTroubleChanges, logTroubleEnd } from '../runs/trouble-log.ts'
import { isTransient } from '../store/connectivity.ts'
import type { Database } from '../store/open.ts'
import {
  hasUnqueuedTroubles,
  type QueueNotifications,
  reportTroubles,
  type TroubleReportResult,
} from '../store/troubles.ts'
import { formatDuration } from '../util/format.ts'
import type { Log } from '../util/log.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'
import type { OwnTroubles } from './own-troubles.ts'

export interface TroubleWatchOptions {
  readonly db: Database
  readonly log: Log
  readonly own: OwnTroubles
  /** When each schedule of the configuration was due last; null: none is loaded yet. */
  readonly schedules: () => ReadonlyMap<string, number | null> | null
  /** How this process queues notifications. Null, or absent: it knows no one to notify, and leaves that to another one. */
  readonly notifier?: () => QueueNotifications | null
  readonly intervalMs?: number
  /** How long before the first look, in milliseconds. Default: 0. */
  readonly delayMs?: number
}

const INTERVAL_MS = 2_000
/** While Postgres is away: its return is noticed at once, and what keeps it away may change. */
const AWAY_INTERVAL_MS = 500
/** A slower answer of Postgres counts as none. */
const TIMEOUT_MS = 10_000
/** What holds is recorded again this often, so that other processes know that it was seen. */
const REFRESH_MS = 10_000
const STOP_MS = 1_000
/** After an error that waiting does not explain. */
const RESTART_MS = 60_000

const WATCHED_CODES = TROUBLE_CODES.filter((code) => toTroubleKind(code).isRecordedOnly !== true)

/** Watches for troubles until it is stopped. */
export interface TroubleWatch {
  /** Looks once more, and ends. Never throws. */
  stop(): Promise<void>
}

/**
 * Looks every two seconds for what is wrong, from the stored state and from what this process knows, and records and logs
 * each begin and each end. Everything stored is seen by all processes, and recorded by the first; what only this process
 * knows, it logs itself. While Postgres is away it knows that alone, and says so once.
 */
export function startTroubleWatch(options: TroubleWatchOptions): TroubleWatch {
  const { intervalMs = INTERVAL_MS, delayMs = 0, log } = options
  const ticker = new TroubleTicker(options)
  const stopped = new AbortController()
  const wakeUps = options.own.changed.listen()
  const loop = (async () => {
    if (delayMs > 0) await wakeUps.wait(delayMs, stopped.signal)
    while (!stopped.signal.aborted) {
      const pauseMs = await ticker.tick().then(
        () => (ticker.isAway ? Math.min(intervalMs, AWAY_INTERVAL_MS) : intervalMs),
        (error: unknown) => {
          const reason = describeError(error)
          log.error(
            { event: 'task_failed', task: 'trouble', reason },
            'troubles cannot be watched; trying again',
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
    },
  }
}

/** One look at a time. A test calls it by hand. */
export class TroubleTicker {
  readonly #options: TroubleWatchOptions
  /** Own troubles that were logged, and when they were looked at last. */
  #logged = new Map<string, OwnTrouble>()
  #loggedAt = 0

  constructor(options: TroubleWatchOptions) {
    this.#options = options
  }

  get isAway(): boolean {
    return this.#options.own.list().some(({ code }) => code === 'database_away')
  }

  /** Never throws for want of Postgres or its schema. */
  async tick(): Promise<void> {
    const { own } = this.#options
    try {
      await withTimeout(this.#look(), TIMEOUT_MS)
    } catch (error) {
      if (isTransient(error) || error instanceof DatabaseUnusableError)
        own.raise('database_away', '', { reason: describeDatabaseError(error), process: own.processName })
      // Without the schema there is nothing to watch. What waits for it says so.
      else if (!isMissingTable(error)) throw error
    }
    this.#logOwn()
  }

  async #look(): Promise<void> {
    const { db, own, schedules } = this.#options
    const before = own.list()
    const sight = await lookForTroubles(db, {
      own: before.filter(({ code }) => code !== 'database_away'),
      schedules: schedules(),
    })
    if (sight.isReadOnly) throw new DatabaseUnusableError('it is read-only')
    // Measured now, as the time of the facts is: in between, a statement was answered.
    const away = own.list().find(({ code }) => code === 'database_away')
    if (away !== undefined) {
      own.clear('database_away')
      own.confirm()
      await this.#recordOutage(away, sight.now)
    }
    const queueNotifications = this.#options.notifier?.() ?? null
    if (isRecorded(sight) && (queueNotifications === null || !(await hasUnqueuedTroubles(db)))) return
    const proofs = own.listAcceptedKeys().map(({ scope, agoMs }) => ({
      code: 'key_refused' as const,
      subject: scope,
      at: new Date(sight.now.getTime() - agoMs),
    }))
    const report = { reporter: own.owner, codes: WATCHED_CODES, at: sight.now, proofs }
    this.#apply(await reportTroubles(db, report, sight.observed, queueNotifications))
  }

  async #recordOutage({ code, subject, details, forMs }: OwnTrouble, now: Date): Promise<void> {
    const { db, own } = this.#options
    const trouble = { code, subject, details, since: new Date(now.getTime() - forMs), endedAt: now }
    const report = { reporter: own.owner, codes: [] }
    await reportTroubles(db, report, [trouble], this.#options.notifier?.())
  }

  #apply({ begun, ended, disproved }: TroubleReportResult): void {
    const { log, own } = this.#options
    for (const { subject } of disproved.filter(({ code }) => code === 'key_refused')) {
      own.clear('key_refused', subject)
      own.keyAccepted.notify()
    }
    const isOfAll = ({ code }: { code: TroubleCode }): boolean => toTroubleKind(code).isOwn !== true
    logTroubleChanges(log, { begun: begun.filter(isOfAll), ended: ended.filter(isOfAll) })
  }

  #logOwn(): void {
    const { own, log } = this.#options
    const raised = new Map(own.list().map((one) => [troubleId(one), one]))
    for (const [id, one] of raised)
      if (!this.#logged.has(id)) logTroubleBegin(log, one, new Date(Date.now() - one.forMs))
    for (const [id, one] of this.#logged)
      if (!raised.has(id)) logTroubleEnd(log, one, one.forMs + performance.now() - this.#loggedAt)
    this.#logged = raised
    this.#loggedAt = performance.now()
  }
}

/** Whether the record agrees with what is seen, and was refreshed a moment ago: then there is nothing to write. */
function isRecorded({ now, observed, open }: TroubleSight): boolean {
  const seen = new Set(observed.map(troubleId))
  const recorded = open.filter((one) => seen.has(troubleId(one)))
  const isFresh = recorded.every((one) => now.getTime() - one.seenAt.getTime() < REFRESH_MS)
  const watched = open.filter(({ code }) => WATCHED_CODES.includes(code))
  return isFresh && recorded.length === seen.size && recorded.length === watched.length
}

/** Postgres does not answer in time, or takes no writes. */
class DatabaseUnusableError extends FillrateError {
  override readonly name = 'DatabaseUnusableError'
}

async function withTimeout(work: Promise<void>, ms: number): Promise<void> {
  // It ends later with an error that then says nothing new.
  work.catch(() => {})
  const timeout = new AbortController()
  try {
    await Promise.race([
      work,
      sleep(ms, undefined, { signal: timeout.signal, ref: false }).then(() => {
        throw new DatabaseUnusableError(`no response within ${formatDuration(ms)}`)
      }),
    ])
  } finally {
    timeout.abort()
  }
}

const describeDatabaseError = (error: unknown): string =>
  networkErrorMeaning(networkErrorCode(error)) ?? describeError(error)

/** SQLSTATEs of a table, column, function or schema that does not exist. */
const isMissingTable = (error: unknown): boolean =>
  ['42P01', '42703', '42883', '3F000'].includes(networkErrorCode(error) ?? '')
