import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { troubleId } from '../actions/troubles.ts'
import { addRefusal, describeRefusal, isRefusing, isSuspected, type Refusals } from '../domain/refusal.ts'
import type { OwnTrouble } from '../domain/trouble-facts.ts'
import { describeTrouble, type TroubleDetails } from '../domain/trouble.ts'
import { WorkMetrics } from '../pipeline/metrics-recorder.ts'
import type { OpenOptions } from '../store/open.ts'
import { describeError } from '../util/error-text.ts'
import type { Log } from '../util/log.ts'
import { isRaised, sqlStateOf } from '../util/sqlstates.ts'
import { WakeSignal } from '../util/wake-signal.ts'

interface RaisedTrouble extends Omit<OwnTrouble, 'forMs' | 'seenAgoMs'> {
  readonly since: number
  readonly seenAt: number
}

/** Troubles that only this process can observe, and their ends, with what it has counted: they outlive each configuration. */
export class OwnTroubles {
  /** Identifies this process; unique for each start, so that it is never mistaken for an earlier one. */
  readonly owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  /**
   * Notified when something begins or ends here, and when a connection to Postgres was lost: a restart may be over before
   * the next look.
   */
  readonly changed = new WakeSignal()
  /** Notified when a rejected key is accepted again, in this process or another one: what waits to try it may go on. */
  readonly keyAccepted = new WakeSignal()
  readonly metrics = new WorkMetrics()
  readonly #raised = new Map<string, RaisedTrouble>()
  /** When each service and key was last accepted by a call of this process. */
  readonly #acceptedAt = new Map<string, number>()

  #refusals: Refusals | null = null

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

  get isAway(): boolean {
    return this.describeOutage() !== null
  }

  /** What keeps this process from Postgres, in words; null: nothing. */
  describeOutage(): string | null {
    const away = this.list().find(({ code }) => code === 'database_away')
    return away === undefined ? null : describeTrouble(away, Date.now()).title
  }

  get suspectsRefusal(): boolean {
    return isSuspected(this.#refusals, performance.now())
  }

  /** The process as people know it. */
  get processName(): string {
    return `${hostname()}:${process.pid}`
  }

  /** It holds, or still does. */
  raise(code: OwnTrouble['code'], subject: string, details: TroubleDetails, now = performance.now()): void {
    const trouble = { code, subject, details }
    const before = this.#raised.get(troubleId(trouble))
    this.#raised.set(troubleId(trouble), { ...trouble, since: before?.since ?? now, seenAt: now })
    if (before === undefined) this.changed.notify()
  }

  /** It is over. @param subject default: all of this code */
  clear(code: OwnTrouble['code'], subject?: string): void {
    for (const [id, one] of this.#raised)
      if (one.code === code && (subject === undefined || one.subject === subject)) {
        this.#raised.delete(id)
        if (code === 'database_away') this.#refusals = null
        this.changed.notify()
      }
  }

  /** It holds for these subjects, and for no others. */
  raiseOnly(code: OwnTrouble['code'], troubles: ReadonlyMap<string, TroubleDetails>): void {
    for (const { subject } of this.list().filter((one) => one.code === code))
      if (!troubles.has(subject)) this.clear(code, subject)
    for (const [subject, details] of troubles) this.raise(code, subject, details)
  }

  /** The service has accepted a call with this key: whichever process has found it rejected before, it is not now. */
  acceptKey(scope: string, now = performance.now()): void {
    this.#acceptedAt.set(scope, now)
    for (const { code, subject } of this.#raised.values())
      if (code === 'key_refused') this.#acceptedAt.set(subject, now)
    this.clear('key_refused')
  }

  /** Which services and keys were accepted here, and how long ago in milliseconds. */
  listAcceptedKeys(now = performance.now()): { readonly scope: string; readonly agoMs: number }[] {
    return [...this.#acceptedAt].map(([scope, at]) => ({ scope, agoMs: now - at }))
  }

  list(now = performance.now()): OwnTrouble[] {
    return [...this.#raised.values()].map(({ since, seenAt, ...one }) => ({
      ...one,
      forMs: now - since,
      seenAgoMs: now - seenAt,
    }))
  }
}
