import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import {
  type ConditionDetails,
  describeCondition,
  type DatabaseOutage,
  SCHEMA_OUTDATED,
  toOutageCondition,
} from '../domain/condition.ts'
import { addRefusal, describeRefusal, isRefusing, isSuspected, type Refusals } from '../domain/refusal.ts'
import { WorkMetrics } from '../pipeline/metrics-recorder.ts'
import type { OpenOptions } from '../store/open.ts'
import { describeError } from '../util/error-text.ts'
import type { Log } from '../util/log.ts'
import { isRaised, sqlStateOf } from '../util/sqlstates.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { Speaker } from './notifier.ts'

/** A key that the service of a number has refused, or accepted again, as a call of this process has just found out. */
export type KeyNews =
  | { readonly scope: string; readonly isAccepted: true }
  | {
      readonly scope: string
      readonly isAccepted: false
      readonly service: number
      readonly reason: string | null
    }

/** What only this process knows, and what it has counted: it outlives each configuration. */
export class ProcessState {
  /** Identifies this process; unique for each start, so that it is never mistaken for an earlier one. */
  readonly owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  /** The process as people know it. */
  readonly name = `${hostname()}:${process.pid}`
  /** Notified of news, and when a connection to Postgres was lost: a restart may be over before the next look. */
  readonly changed = new WakeSignal()
  readonly metrics = new WorkMetrics()
  readonly speaker = new Speaker()
  /** Why the configuration that was read last is not in force; null: it is. */
  reloadProblem: string | null = null
  /** The schema does not fit this version. */
  isSchemaOutdated = false
  #away: { readonly details: ConditionDetails; readonly since: number } | null = null
  #refusals: Refusals | null = null
  readonly #keyNews = new Map<string, KeyNews>()
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
    const sqlState = sqlStateOf(error)
    if (describeRefusal(sqlState) === null || isRaised(error)) return
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
    this.#keyNews.set(scope, { scope, isAccepted: false, service, reason })
    this.changed.notify()
  }

  /** The service has accepted a call with a key: whichever process has found it rejected before, it is not now. */
  acceptKey(scope: string): void {
    if (!this.#refused.has(scope)) return
    this.#refused = new Set([...this.#refused].filter((one) => one !== scope))
    this.#keyNews.set(scope, { scope, isAccepted: true })
    this.changed.notify()
  }

  /** What is to be stored of keys, once. */
  takeKeyNews(): KeyNews[] {
    const news = [...this.#keyNews.values()]
    this.#keyNews.clear()
    return news
  }

  /** What could not be stored. Later news of the same key stand. */
  putBackKeyNews(news: readonly KeyNews[]): void {
    for (const one of news) if (!this.#keyNews.has(one.scope)) this.#keyNews.set(one.scope, one)
  }

  /** @param stored the keys that are refused as far as any process knows */
  noteRefusedKeys(stored: readonly string[]): void {
    this.#refused = new Set([...stored, ...this.#keyNews.keys()])
  }
}
