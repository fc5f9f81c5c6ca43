import type { LearntUsage, LimitUsage, WindowUsage } from '../../domain/rate-status.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import { padded } from './counter.ts'

/** Calls of one window are remembered in this many parts: a part is forgotten as a whole, with its latest call. */
const PARTS = 128

/** As few are stored: this many pairs of numbers a window. */
const STORED_PARTS = 24

/** After a note has failed it is tried again this much later, in milliseconds. */
const RETRY_MS = 500

/** Calls in a row; the latest was answered then. */
export interface EarlierCalls {
  readonly at: number
  readonly calls: number
}

/** The limits of a limiter, and how they outlive it. */
export interface DocumentedOptions {
  readonly limits: readonly DocumentedLimit[]
  /** What earlier leaders have called, as of now. */
  readonly usage?: LimitUsage | null
  /** Stores the usage; throws if this process is no longer the leader. Without it, the next leader does not learn what was called. */
  readonly persist?: (usage: LimitUsage) => Promise<void>
}

/**
 * Keeps calls within limits that no header states. Each call holds its place from its grant until a whole window after
 * its answer: true for fixed windows, whenever they start, for sliding ones and for buckets alike. Each window loses the
 * time that a call is in flight. All times are milliseconds since the epoch.
 *
 * This process may be killed at any moment, and no header would tell the next leader how much is left. So calls are noted
 * before they are made, some at a time, so that nothing waits while Postgres answers.
 */
export class DocumentedLimits {
  readonly limits: readonly DocumentedLimit[]
  readonly #windows: readonly CallWindow[]
  /** Granted or in flight. */
  readonly #pending = new Map<CalledEndpoint | null, number>()
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
    this.#windows = limits.map((limit) => new CallWindow(limit))
    if (usage !== null) for (const window of this.#windows) window.restore(usage, now)
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

  /** The limits that count calls of an endpoint; null: those that count all calls. */
  of(endpoint: CalledEndpoint | null): readonly DocumentedLimit[] {
    return this.limits.filter((limit) => limit.endpoint === null || limit.endpoint === endpoint)
  }

  /** The completed calls of an endpoint, as far back as this or its longest window goes. */
  completedCalls(endpoint: CalledEndpoint | null, windowMs: number): readonly EarlierCalls[] {
    const windows = this.#counting(endpoint).toSorted((a, b) => a.limit.windowMs - b.limit.windowMs)
    const covering = windows.find(({ limit }) => limit.windowMs >= windowMs) ?? windows.at(-1)
    return covering?.calls ?? []
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
    const free = this.#counting(endpoint).map((window) => window.left(now, reserve) - this.#pendingIn(window))
    return Math.max(0, Math.floor(Math.min(...free)))
  }

  /** When `grantable` may rise by the passing of time, if it is 0; null: only an answer can raise it. */
  nextAt(endpoint: CalledEndpoint | null, now: number, reserve = 0): number | null {
    const full = this.#counting(endpoint).filter(
      (window) => window.left(now, reserve) - this.#pendingIn(window) < 1,
    )
    const times = full.map((window) => window.nextLeavesAt(now)).filter((at) => at !== null)
    return times.length === 0 ? null : Math.max(...times)
  }

  grant(endpoint: CalledEndpoint | null, count: number): void {
    this.#addPending(endpoint, count)
    this.#noted -= count
  }

  release(endpoint: CalledEndpoint | null, count: number): void {
    this.#addPending(endpoint, -count)
  }

  /** A call was answered, or its answer was lost: the service has counted it by now. */
  complete(endpoint: CalledEndpoint | null, now: number): void {
    this.release(endpoint, 1)
    for (const window of this.#counting(endpoint)) window.add(1, now)
  }

  get pending(): number {
    return [...this.#pending.values()].reduce((sum, count) => sum + count, 0)
  }

  /**
   * The limit to report: the one that is used up, or else the shortest.
   * @returns with the calls that it counts, and when one more is possible if it is used up; null if there is no limit
   */
  binding(now: number): { limit: DocumentedLimit; used: number; nextAt: number | null } | null {
    const states = this.#windows.map((window) => {
      const used = window.used(now) + this.#pendingIn(window)
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
    return { windows, reserved: this.pending + reserved, ...(learnt.length > 0 && { learnt }) }
  }

  #addPending(endpoint: CalledEndpoint | null, count: number): void {
    this.#pending.set(endpoint, (this.#pending.get(endpoint) ?? 0) + count)
  }

  #counting(endpoint: CalledEndpoint | null): readonly CallWindow[] {
    return this.#windows.filter(({ limit }) => limit.endpoint === null || limit.endpoint === endpoint)
  }

  #pendingIn({ limit }: CallWindow): number {
    return limit.endpoint === null ? this.pending : (this.#pending.get(limit.endpoint) ?? 0)
  }
}

/** The completed calls that one limit counts. */
class CallWindow {
  readonly limit: DocumentedLimit
  /** The oldest first. `at`: the latest completion in the part, `from`: the first. */
  #parts: { readonly from: number; at: number; calls: number }[] = []
  #used = 0

  constructor(limit: DocumentedLimit) {
    this.limit = limit
  }

  add(calls: number, at: number): void {
    const last = this.#parts.at(-1)
    this.#used += calls
    if (last === undefined || at - last.from >= this.limit.windowMs / PARTS)
      this.#parts.push({ from: at, at, calls })
    else {
      last.at = Math.max(last.at, at)
      last.calls += calls
    }
  }

  get calls(): readonly EarlierCalls[] {
    return this.#parts.map(({ at, calls }) => ({ at, calls }))
  }

  used(now: number): number {
    const length = padded(this.limit.windowMs)
    const gone = this.#parts.findIndex((part) => part.at + length > now)
    for (const part of this.#parts.splice(0, gone === -1 ? this.#parts.length : gone))
      this.#used -= part.calls
    return this.#used
  }

  left(now: number, reserve: number): number {
    const { calls } = this.limit
    return calls - Math.floor(calls * reserve) - this.used(now)
  }

  nextLeavesAt(now: number): number | null {
    this.used(now)
    const [oldest] = this.#parts
    return oldest === undefined ? null : oldest.at + padded(this.limit.windowMs)
  }

  store(now: number): WindowUsage {
    const { windowMs, endpoint } = this.limit
    this.used(now)
    const each = Math.max(1, Math.ceil(this.#parts.length / STORED_PARTS))
    const calls: [number, number][] = []
    for (let n = 0; n < this.#parts.length; n += each) {
      const merged = this.#parts.slice(n, n + each)
      const latest = merged.at(-1)?.at ?? now
      calls.push([Math.max(0, Math.floor(now - latest)), merged.reduce((sum, part) => sum + part.calls, 0)])
    }
    return { windowMs, endpoint, calls }
  }

  /** What an earlier leader has called. Of a limit that is new, the next longer window has it. */
  restore({ windows, reserved }: LimitUsage, now: number): void {
    const { windowMs, endpoint } = this.limit
    const [known] = windows
      .filter((one) => one.windowMs >= windowMs && (one.endpoint === null || one.endpoint === endpoint))
      .toSorted((a, b) => a.windowMs - b.windowMs)
    for (const [ageMs, calls] of known?.calls ?? []) this.add(calls, now - ageMs)
    if (reserved > 0) this.add(reserved, now)
  }
}
