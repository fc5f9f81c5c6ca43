import type { CallLedger } from './call-ledger.ts'
import type { Capacity } from './capacity.ts'
import type { Cooldown } from './cooldown.ts'
import type { HeaderCoverage } from './header-evidence.ts'
import { Probes, type ProbeContext } from './probes.ts'
import type { ResetTimer } from './reset-timer.ts'
import type { UnstatedLimit } from './unstated-limit.ts'
import type { WindowModels } from './window-models.ts'

/** What permits are granted by. */
export interface PolicyInputs {
  readonly calls: CallLedger
  readonly models: WindowModels
  readonly capacity: Capacity
  readonly cooldown: Cooldown
  readonly unstated: UnstatedLimit
  readonly reset: ResetTimer
  readonly coverage: HeaderCoverage
}

/** How many permits may be granted, and when: what the limit leaves, less the calls reserved for probes. */
export class GrantPolicy {
  /** The window's length by a policy's `w=` or an earlier run: tried first. */
  warmGuess: number | null
  readonly #inputs: PolicyInputs
  readonly #probes = new Probes()

  constructor(inputs: PolicyInputs, warmGuess: number | null) {
    this.#inputs = inputs
    this.warmGuess = warmGuess
  }

  onIdle(): void {
    this.#probes.onIdle()
  }

  /**
   * How many permits may be granted now, beyond those that are.
   * @param reserved calls to keep for urgent work
   */
  grantable(limit: number | null, now: number, reserved: number): number {
    const { calls, capacity, cooldown, coverage, unstated } = this.#inputs
    calls.expireGrants(now)
    if (cooldown.isActive(now)) return 0
    if (cooldown.isBan) return calls.hasPending ? 0 : 1
    if (limit === null) return unstated.grantable(now)
    const spendable = capacity.spendable(limit, now)
    const context = this.#probeContext(limit)
    const free = spendable - this.#probes.reserved(context, now) - reserved
    if (free >= 1) return Math.floor(free)
    if (spendable >= 1) {
      const probeAt = this.#probes.nextAt(context, now)
      if (probeAt !== null && now >= probeAt) return 1
    }
    // Neither reserved calls nor an estimate of the length hold anything up for longer than Reset says.
    const attempt = this.#nextAttempt(spendable)
    if (attempt === null || now < attempt.at) return 0
    if (attempt.isFromHeader || spendable >= 1) return 1
    // After a full silence as much is renewed as was used at the last Reset; several calls, because some answers carry
    // no headers.
    const several = Math.min(Math.floor(limit / 4), Math.ceil(2 / coverage.share))
    return Math.max(1, Math.min(several, coverage.maxUsedAtReset))
  }

  /** When `grantable` may rise by the passing of time alone; null if only an answer can raise it. */
  nextCheckAt(limit: number | null, now: number): number | null {
    const { calls, capacity, cooldown, unstated } = this.#inputs
    if (cooldown.isActive(now)) return cooldown.until
    if (limit === null) return unstated.nextAt(now)
    const spendable = capacity.spendable(limit, now)
    const times = [
      capacity.windowEnd,
      capacity.nextLeavesAt(limit, now),
      calls.grantsExpireAt,
      this.#nextAttempt(spendable)?.at ?? null,
      spendable >= 1 ? this.#probes.nextAt(this.#probeContext(limit), now) : null,
    ]
    const next = Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY))
    return Number.isFinite(next) ? next : null
  }

  grant(count: number, limit: number | null, now: number): void {
    const { calls, capacity, cooldown, reset } = this.#inputs
    if (limit !== null && !cooldown.isActive(now)) {
      const spendable = capacity.spendable(limit, now)
      if (spendable < 1) {
        reset.consume(now)
        capacity.tracker.allow(count)
      } else if (spendable - this.#probes.reserved(this.#probeContext(limit), now) < 1) {
        const attempt = this.#nextAttempt(spendable)
        if (attempt !== null && now >= attempt.at) reset.consume(now)
        this.#probes.consume(now)
      }
    }
    calls.grant(count, now)
  }

  /**
   * When to try a call although nothing is left, or only reserved calls are, if no call is pending that will tell more. A
   * reserved call cannot be refused, so it may be tried while only a bound of the length is known.
   */
  #nextAttempt(spendable: number): ReturnType<ResetTimer['nextAttempt']> {
    const { calls, models, reset } = this.#inputs
    if (calls.hasPending) return null
    const { length, min } = models.estimate
    return reset.nextAttempt(Number.isFinite(length) && spendable < 1 ? null : min)
  }

  #probeContext(limit: number): ProbeContext {
    const { coverage, models, reset } = this.#inputs
    const { window } = models
    const { fixed } = models.all
    const { min, max } = fixed.bounds
    return {
      limit,
      window: window.id,
      windowStart: window.latestOwnStart,
      firstSentAt: window.firstSentAt,
      min,
      max,
      observedMax: fixed.observedMax,
      maxIfRequestStarts: fixed.maxIfRequestStarts,
      earliestReset: reset.earliestReset ?? Number.NEGATIVE_INFINITY,
      latestReset: reset.latestReset ?? Number.POSITIVE_INFINITY,
      headerShare: coverage.share,
      hasFewSamples: coverage.hasFewSamples,
      lastHeaderAt: coverage.lastSentAt,
      warmGuess: this.warmGuess,
    }
  }
}
