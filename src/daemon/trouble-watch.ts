import { randomUUID } from 'node:crypto'
import { describeError, FillrateError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { lookForTroubles, troubleId, type TroubleSight } from '../actions/troubles.ts'
import type { OwnTrouble } from '../domain/trouble-facts.ts'
import { describeRefusal } from '../domain/refusal.ts'
import {
  OWN_TROUBLE_TTL_MS,
  type Trouble,
  type TroubleDetails,
  TROUBLE_CODES,
  TROUBLES,
  toTroubleKind,
} from '../domain/trouble.ts'
import { notificationDelayMs } from '../domain/notification.ts'
import { logTroubleBegin, logTroubleChanges, logTroubleEnd } from '../runs/trouble-log.ts'
import { isTransient, TakeoverGrace, tryWrite } from '../store/connectivity.ts'
import type { Database } from '../store/open.ts'
import { reportRefusal } from '../store/processes.ts'
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

export interface TroubleNotifier {
  /** Queues notifications. Null: there is no one to notify, and that is left to another process. */
  readonly queueTroubles: QueueNotifications | null
  /** Sends a notification that cannot be stored. @returns whether it was accepted */
  tellDirectly(trouble: Trouble, eventId: string): Promise<boolean>
}

export interface TroubleWatchOptions {
  readonly db: Database
  readonly log: Log
  readonly own: OwnTroubles
  /** When each schedule of the configuration was due last; null: none is loaded yet. */
  readonly schedules: () => ReadonlyMap<string, number | null> | null
  /** How this process notifies. Null, or absent: it does not know whom yet. */
  readonly notifier?: () => TroubleNotifier | null
  readonly intervalMs?: number
  /** How long before the first look, in milliseconds. Default: 0. */
  readonly delayMs?: number
}

const INTERVAL_MS = 2_000
/** While Postgres is away: its return is noticed at once, and what keeps it away may change. */
const AWAY_INTERVAL_MS = 1_000
/** How long an answer of Postgres may take; a later one counts as none. */
const TIMEOUT_MS = 10_000
/** What holds is recorded again this often, so that other processes know that it was seen. */
const REFRESH_MS = 10_000
const STOP_MS = 1_000
/** How long an outage is tried to be stored, in milliseconds: for less than it takes until it is notified of from memory. */
const STORE_OUTAGE_MS = 20_000
const DISK_FULL = '53100'
/** After an error that waiting does not explain. */
const RESTART_MS = 60_000

const WATCHED_CODES = TROUBLE_CODES.filter((code) => toTroubleKind(code).isRecordedOnly !== true)

/** Watches for troubles until it is stopped. */
interface TroubleWatch {
  /** Looks once more, and ends. Never throws. */
  stop(): Promise<void>
}

/**
 * Observes troubles every two seconds, from the stored state and from what this process knows, and records and logs
 * their begins and ends. Every process sees the stored state, and the first one records a trouble. While Postgres is away,
 * each process logs that once.
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
        () => (options.own.isAway ? Math.min(intervalMs, AWAY_INTERVAL_MS) : intervalMs),
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
      // What only this process was wrong about ends with it. That a key is refused does not.
      for (const code of ['reload_refused', 'schema_outdated'] as const) options.own.clear(code)
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
  /** Own troubles whose end was logged, and may not be recorded yet. */
  readonly #endLogged = new Set<string>()
  /** The process that notifies for all while nothing can be stored; null: none is known. */
  #speaker: string | null = null
  /** Another process may write what this one does not: then it finds out for itself. */
  #isRefused = false
  #isOutageRecorded = false
  /** What only other processes know ends with their silence, but not right after an outage of Postgres. */
  readonly #grace = new TakeoverGrace(OWN_TROUBLE_TTL_MS)
  #notice: { readonly eventId: string; isDone: boolean; triedAt: number } | null = null

  constructor(options: TroubleWatchOptions) {
    this.#options = options
  }

  /** Never throws for want of Postgres or its schema. */
  async tick(): Promise<void> {
    const { own } = this.#options
    const look = this.#look()
    try {
      this.#log(await withTimeout(look, TIMEOUT_MS))
    } catch (error) {
      // What it still records, no other process logs.
      look.then((late) => this.#log(late)).catch(() => {})
      if (isTransient(error) || error instanceof DatabaseUnusableError)
        own.raise('database_away', '', toAwayDetails(error, own))
      // Without the schema there is nothing to watch. What waits for it says so.
      else if (!isMissingTable(error)) throw error
    }
    this.#logOwn()
    this.#notifyOfOutage()
  }

  /** While nothing can be stored, one process notifies from its memory. The end is stored, and notified of, as any other. */
  #notifyOfOutage(): void {
    const { own, notifier } = this.#options
    const away = own.list().find(({ code }) => code === 'database_away')
    if (away === undefined || this.#isOutageRecorded) {
      this.#notice = null
      return
    }
    if (away.forMs < notificationDelayMs(away.code)) return
    this.#notice ??= {
      eventId: randomUUID(),
      isDone: (this.#speaker ?? own.owner) !== own.owner,
      triedAt: Number.NEGATIVE_INFINITY,
    }
    const notice = this.#notice
    const now = performance.now()
    if (notice.isDone || now - notice.triedAt < REFRESH_MS) return
    notice.triedAt = now
    const { severity } = TROUBLES[away.code]
    const trouble = { ...away, severity, since: new Date(Date.now() - away.forMs), endedAt: null }
    // Not awaited: a target that does not answer would delay the next look.
    void notifier?.()
      ?.tellDirectly(trouble, notice.eventId)
      .then((isAccepted) => (notice.isDone = isAccepted))
  }

  /** @returns what was recorded; null: nothing had to be */
  async #look(): Promise<TroubleReportResult | null> {
    const { db, own, schedules } = this.#options
    const probed = own.suspectsRefusal || this.#isRefused ? await tryWrite(db) : null
    const refusal = own.findRefusal()
    if (refusal !== null) {
      const details = { sqlstate: refusal.sqlState, process: own.processName }
      own.raise('database_away', '', details, own.isAway ? refusal.lastAt : refusal.firstAt)
      await reportRefusal(db, own.owner).catch(() => {})
    }
    // Neither when it may have been notified of from memory, as what is stored as begun is notified of again, nor when it is
    // over: its end would be stored as that of a short trouble.
    const isStorable = ({ forMs }: OwnTrouble): boolean =>
      refusal !== null &&
      (this.#isOutageRecorded ||
        (forMs < STORE_OUTAGE_MS && (probed !== null || refusal.sqlState !== DISK_FULL)))
    const listed = own.list().filter((one) => one.code !== 'database_away' || isStorable(one))
    const sight = await lookForTroubles(db, { own: listed, schedules: schedules() })
    const mayBeLate = this.#grace.isRunning()
    this.#speaker = sight.speaker ?? this.#speaker
    this.#isRefused = sight.isRefused
    this.#isOutageRecorded = sight.open.some(({ code }) => code === 'database_away')
    if (sight.isReadOnly) throw new DatabaseUnusableError('it is read-only', '25006')
    // Measured now, as the time of the facts is: in between, a statement was answered.
    const away = refusal === null ? own.list().find(({ code }) => code === 'database_away') : undefined
    if (away !== undefined) {
      own.clear('database_away')
      await this.#recordOutage(away, sight.now)
    }
    const queueNotifications = this.#options.notifier?.()?.queueTroubles ?? null
    if (isRecorded(sight)) {
      this.#endLogged.clear()
      if (queueNotifications === null || !(await hasUnqueuedTroubles(db))) return null
    }
    const proofs = [
      ...own.listAcceptedKeys().map(({ scope, agoMs }) => ({
        code: 'key_refused' as const,
        subject: scope,
        at: new Date(sight.now.getTime() - agoMs),
      })),
      ...(away === undefined ? [] : [{ code: 'database_away' as const, subject: '', at: sight.now }]),
    ]
    const report = { reporter: own.owner, codes: WATCHED_CODES, at: sight.now, proofs, mayBeLate }
    const recorded = await reportTroubles(db, report, sight.observed, queueNotifications)
    for (const { code, subject } of recorded.disproved) {
      if (code === 'database_away') own.clear(code)
      if (code !== 'key_refused') continue
      own.clear(code, subject)
      own.keyAccepted.notify()
    }
    return recorded
  }

  async #recordOutage({ code, subject, details, forMs }: OwnTrouble, now: Date): Promise<void> {
    const { db, own } = this.#options
    const trouble = { code, subject, details, since: new Date(now.getTime() - forMs), endedAt: now }
    const report = { reporter: own.owner, codes: [] }
    await reportTroubles(db, report, [trouble], this.#options.notifier?.()?.queueTroubles)
  }

  #log(recorded: TroubleReportResult | null): void {
    if (recorded === null) return
    const { begun, ended } = recorded
    // What a process knows itself, it logs itself; of what ended with another process this one has the last word.
    const isOwn = ({ code }: Trouble): boolean => toTroubleKind(code).isOwn === true
    const isLogged = (id: string): boolean => this.#endLogged.has(id) || this.#logged.has(id)
    logTroubleChanges(this.#options.log, {
      begun: begun.filter((one) => !isOwn(one)),
      ended: ended.filter((one) => !isOwn(one) || !isLogged(troubleId(one))),
    })
  }

  #logOwn(): void {
    const { own, log } = this.#options
    const raised = new Map(own.list().map((one) => [troubleId(one), one]))
    for (const [id, one] of raised) {
      this.#endLogged.delete(id)
      if (!this.#logged.has(id)) logTroubleBegin(log, one, new Date(Date.now() - one.forMs))
    }
    for (const [id, one] of this.#logged) {
      if (raised.has(id)) continue
      logTroubleEnd(log, one, one.forMs + performance.now() - this.#loggedAt)
      this.#endLogged.add(id)
    }
    this.#logged = raised
    this.#loggedAt = performance.now()
  }
}

/** Whether the record agrees with what is seen, and was refreshed a moment ago: then there is nothing to write. */
function isRecorded({ now, observed, open }: TroubleSight): boolean {
  const seen = new Set(observed.map(troubleId))
  const recorded = open.filter((one) => seen.has(troubleId(one)))
  const isFresh = recorded.every(({ code, seenAt }) => {
    // What comes and goes is held for a few seconds from when it was seen: these are counted from the latest look.
    const refreshMs = toTroubleKind(code).holdMs === undefined ? REFRESH_MS : INTERVAL_MS
    return now.getTime() - seenAt.getTime() < refreshMs
  })
  const watched = open.filter(({ code }) => WATCHED_CODES.includes(code))
  return isFresh && recorded.length === seen.size && recorded.length === watched.length
}

/** Postgres does not answer in time, or takes no writes. */
class DatabaseUnusableError extends FillrateError {
  override readonly name = 'DatabaseUnusableError'
  readonly code: string | undefined

  constructor(message: string, code?: string) {
    super(message)
    this.code = code
  }
}

async function withTimeout<Result>(work: Promise<Result>, ms: number): Promise<Result> {
  // It ends later with an error that then says nothing new.
  work.catch(() => {})
  const timeout = new AbortController()
  try {
    return await Promise.race([
      work,
      sleep(ms, undefined, { signal: timeout.signal, ref: false }).then(() => {
        throw new DatabaseUnusableError(`no response within ${formatDuration(ms)}`)
      }),
    ])
  } finally {
    timeout.abort()
  }
}

function toAwayDetails(error: unknown, { processName: process }: OwnTroubles): TroubleDetails {
  const code = networkErrorCode(error)
  return describeRefusal(code) === null
    ? { reason: networkErrorMeaning(code) ?? describeError(error), process }
    : { sqlstate: code ?? undefined, process }
}

/** SQLSTATEs of a table, column, function or schema that does not exist. */
const isMissingTable = (error: unknown): boolean =>
  ['42P01', '42703', '42883', '3F000'].includes(networkErrorCode(error) ?? '')
