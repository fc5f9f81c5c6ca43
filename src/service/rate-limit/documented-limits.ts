import type { LearntUsage, LimitUsage, WindowUsage } from '../../domain/rate-status.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import { CallLedger, type EarlierCalls } from './call-ledger.ts'
import { padded } from './counter.ts'

/** Calls of one window are stored in as few parts, each a pair of numbers: it leaves as a whole, with its latest call. */
const STORED_PARTS = 24
/** What is left of them for what refusals have shown is as fine as this. */
const PARTS = 128

/** After a note has failed it is tried again this much later, in milliseconds. */
const RETRY_MS = 500

/** The limits of a limiter, and how they outlive it. */
export interface DocumentedOptions {
  readonly limits: readonly DocumentedLimit[]
  /** What earlier leaders have called, as of now. */
  readonly usage?: LimitUsage | null
  /** Stores the usage; throws if this process is no longer the leader. Without it, the next leader does not learn what was called. */
  readonly persist?: (usage: LimitUsage) => Promise<void>
}

/**
 * Keeps calls within limits that no header states. Each call holds its place from its grant until a whole window
 * after its answer, which is true of fixed windows, sliding ones and buckets; each window loses the time of a call
 * in flight. All times are milliseconds since the epoch.
 *
 * Calls are noted before they are made, because this process may be killed and no header shows the next leader what
 * is left; some at a time, so that nothing waits while Postgres answers.
 */
export class DocumentedLimits {
  readonly limits: readonly DocumentedLimit[]
  readonly #windows: readonly CallWindow[]
  /** Granted or in flight. */
  #pending = 0
  readonly #persist: DocumentedOptions['persist']
  readonly #onPersisted: () => void
  readonly #listLearnt: () => readonly LearntUsage[]
  /** Calls that may be granted before the next note, how many each note adds, and whether one is being stored. */
  #noted = 0
  #noteSize = 1
  #isNoting = false

  /**
   * @param onPersisted more may be granted now
   * @param listLearnt which limits refusals have shown to be lower
   */
  constructor(
    { limits, usage = null, persist }: DocumentedOptions,
    now: number,
    onPersisted: () => void,
    listLearnt: () => readonly LearntUsage[] = () => [],
  ) {
    this.limits = limits
    this.#windows = limits.map((limit) => new CallWindow(limit, usage, now))
    this.#persist = limits.length === 0 ? undefined : persist
    this.#onPersisted = onPersisted
    this.#listLearnt = listLearnt
  }

  /** The service has one limit for all calls. */
  get isOfAll(): boolean {
    return this.limits.length > 0 && !this.isByEndpoint
  }

  /** The service limits each endpoint by itself. */
  get isByEndpoint(): boolean {
    return this.limits.some(({ endpoint }) => endpoint !== null)
  }

  /** The limits that count calls of an endpoint; null: limits that count all calls. */
  of(endpoint: CalledEndpoint | null): readonly DocumentedLimit[] {
    return this.limits.filter((limit) => limit.endpoint === null || limit.endpoint === endpoint)
  }

  /** The completed calls of an endpoint, as far back as its longest window goes. */
  completedCalls(endpoint: CalledEndpoint | null): readonly EarlierCalls[] {
    const windows = this.#counting(endpoint).toSorted((a, b) => a.limit.windowMs - b.limit.windowMs)
    return windows.at(-1)?.calls.listAfter(Number.NEGATIVE_INFINITY, PARTS) ?? []
  }

  /** How many of `count` calls may be granted now: no more than are noted. */
  limit(count: number, endpoint: CalledEndpoint | null, now: number, reserve: number): number {
    const allowed = Math.min(count, this.grantable(endpoint, now, reserve))
    if (this.#persist === undefined) return allowed
    const granted = Math.min(allowed, this.#noted)
    if (allowed > 0 && this.#noted - granted <= this.#noteSize / 2) this.#note(this.#persist, now)
    return granted
  }

  #note(persist: NonNullable<DocumentedOptions['persist']>, now: number): void {
    if (this.#isNoting) return
    this.#isNoting = true
    const least = Math.min(...[...this.limits, ...this.#listLearnt()].map(({ calls }) => calls))
    this.#noteSize = Math.max(1, Math.min(500, Math.ceil(least / 8)))
    // What is granted while this is written is in the note before, and in this one.
    void persist(this.usage(now, this.#noted + this.#noteSize))
      .then(
        () => (this.#noted += this.#noteSize),
        () => new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref()),
      )
      .then(() => {
        this.#isNoting = false
        this.#onPersisted()
      })
  }

  /** How many calls the limits allow now. @param reserve the share of each limit to keep for urgent calls */
  grantable(endpoint: CalledEndpoint | null, now: number, reserve = 0): number {
    const free = this.#counting(endpoint).map((window) => window.left(now, reserve))
    return Math.max(0, Math.floor(Math.min(...free)))
  }

  /** When `grantable` may rise by the passing of time, if it is 0; null: only an answer can raise it. */
  nextAt(endpoint: CalledEndpoint | null, now: number, reserve = 0): number | null {
    const full = this.#counting(endpoint).filter((window) => window.left(now, reserve) < 1)
    const times = full.map((window) => window.nextLeavesAt(now)).filter((at) => at !== null)
    return times.length === 0 ? null : Math.max(...times)
  }

  grant(endpoint: CalledEndpoint | null, count: number): void {
    this.#pending += count
    this.#noted -= count
    for (const { calls } of this.#counting(endpoint)) calls.grant(count, 0)
  }

  release(endpoint: CalledEndpoint | null, count: number): void {
    this.#pending -= count
    for (const { calls } of this.#counting(endpoint)) calls.release(count)
  }

  /** A call was answered, or its answer was lost: the service has counted it by now. */
  complete(endpoint: CalledEndpoint | null, now: number): void {
    this.release(endpoint, 1)
    for (const { calls } of this.#counting(endpoint)) calls.remember([{ at: now, calls: 1 }])
  }

  /**
   * The limit to report: the one that is used up, or else the shortest.
   * @returns with the calls that it counts, and when one more is possible if it is used up; null if there is no limit
   */
  binding(now: number): { limit: DocumentedLimit; used: number; nextAt: number | null } | null {
    const states = this.#windows.map((window) => {
      const used = window.used(now)
      const isFull = used >= window.limit.calls
      return { limit: window.limit, used, nextAt: isFull ? window.nextLeavesAt(now) : null, isFull }
    })
    const sorted = states.toSorted((a, b) => a.limit.windowMs - b.limit.windowMs)
    return sorted.findLast(({ isFull }) => isFull) ?? sorted[0] ?? null
  }

  /** What the next leader has to know. @param reserved calls that may be granted in addition */
  usage(now: number, reserved: number): LimitUsage {
    const windows = this.#windows.map((window) => window.store(now))
    const learnt = this.#listLearnt()
    return { windows, reserved: this.#pending + reserved, ...(learnt.length > 0 && { learnt }) }
  }

  #counting(endpoint: CalledEndpoint | null): readonly CallWindow[] {
    return this.#windows.filter(({ limit }) => limit.endpoint === null || limit.endpoint === endpoint)
  }
}

/** The calls that one limit counts, in a ledger of their own: what is granted stays so until it is answered or given back. */
class CallWindow {
  readonly limit: DocumentedLimit
  readonly calls = new CallLedger()

  constructor(limit: DocumentedLimit, usage: LimitUsage | null, now: number) {
    this.limit = limit
    this.calls.rememberFor(limit.calls)
    if (usage !== null) this.#restore(usage, now)
  }

  #cutoff(now: number): number {
    return now - padded(this.limit.windowMs)
  }

  used(now: number): number {
    return this.calls.completedAfter(this.#cutoff(now)) + this.calls.granted
  }

  left(now: number, reserve: number): number {
    const { calls } = this.limit
    return this.calls.room(calls - Math.floor(calls * reserve), this.#cutoff(now))
  }

  nextLeavesAt(now: number): number | null {
    const oldest = this.calls.nextToLeave(Number.POSITIVE_INFINITY, this.#cutoff(now))
    return oldest === null ? null : oldest + padded(this.limit.windowMs)
  }

  store(now: number): WindowUsage {
    const { windowMs, endpoint } = this.limit
    const parts = this.calls.listAfter(this.#cutoff(now), STORED_PARTS)
    const calls = parts.map((part) => [Math.max(0, Math.floor(now - part.at)), part.calls] as const)
    return { windowMs, endpoint, calls }
  }

  /** What an earlier leader has called. Of a limit that is new, the next longer window has it. */
  #restore({ windows, reserved }: LimitUsage, now: number): void {
    const { windowMs, endpoint } = this.limit
    const [known] = windows
      .filter(
        (limit) => limit.windowMs >= windowMs && (limit.endpoint === null || limit.endpoint === endpoint),
      )
      .toSorted((a, b) => a.windowMs - b.windowMs)
    this.calls.remember((known?.calls ?? []).map(([ageMs, calls]) => ({ at: now - ageMs, calls })))
    if (reserved > 0) this.calls.remember([{ at: now, calls: reserved }])
  }
}
