import type { KnownLimit, RateStatus } from '../../domain/rate-status.ts'
import { formatCount, formatDuration } from '../../util/format.ts'
import type { DocumentedLimits } from './documented-limits.ts'
import type { RateLimitModel } from './model.ts'
import { type AllowanceMeter, untilText } from './state.ts'

/** The limit to report: what headers state, or else what the service documents. */
export function findLimit(
  model: RateLimitModel,
  documented: DocumentedLimits | null,
  now: number,
): Pick<KnownLimit, 'windowMs'> & { readonly limit: number | null } {
  const binding = model.limit === null ? documented?.binding(now) : null
  if (!binding) return { limit: model.limit, windowMs: model.windowMs }
  return { limit: binding.limit.calls, windowMs: binding.limit.windowMs }
}

/** The status to report. `stallReason`: why nothing is granted now, whether or not calls wait. */
export function reportRate(
  model: RateLimitModel,
  documented: DocumentedLimits | null,
  allowance: AllowanceMeter,
  now: number,
): Omit<RateStatus, 'stalledForMs'> {
  const modelState = model.state(now)
  const binding = documented?.binding(now) ?? null
  const isPaced = binding !== null && model.limit === null
  const nextWindowAt = isPaced && modelState !== 'cooldown' ? binding.nextAt : model.nextWindowAt(now)
  const { sent } = model.calls
  const allowed = allowance.total(now)
  const permitted = allowed === null ? null : Math.max(sent, allowed)
  return {
    ...findLimit(model, documented, now),
    state: isPaced && (modelState === 'cold' || modelState === 'unlimited') ? 'documented' : modelState,
    windowAtMostMs: isPaced ? null : model.windowAtMostMs,
    used: sent,
    permitted,
    utilisation: permitted === null || permitted === 0 ? null : sent / permitted,
    windowUsed: isPaced ? binding.used : model.windowUsed(now),
    nextWindowAt,
    nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
    stallReason: describeStall(model, binding, now),
    throttled: model.throttled,
    sharedKey: model.isShared,
  }
}

function describeStall(
  model: RateLimitModel,
  binding: ReturnType<DocumentedLimits['binding']>,
  now: number,
): string | null {
  const isBlocked = binding !== null && binding.used >= binding.limit.calls && model.grantable(now) > 0
  if (!isBlocked) return model.stallReason(now)
  const { calls, windowMs } = binding.limit
  const until = binding.nextAt === null ? '' : untilText(binding.nextAt)
  return `the documented limit of ${formatCount(calls)} calls in ${formatDuration(windowMs)} is used up: waiting${until}`
}

/** How often an unchanged limit is reported. */
const REPORT_INTERVAL_MS = 10 * 60_000

/** Reports a changed limit, and an unchanged one every ten minutes. */
export class ChangeReporter {
  readonly #onChange: ((known: KnownLimit) => void) | undefined
  #last: KnownLimit | null = null

  constructor(onChange: ((known: KnownLimit) => void) | undefined) {
    this.#onChange = onChange
  }

  report(known: KnownLimit): void {
    const last = this.#last
    const isSame =
      last !== null &&
      last.limit === known.limit &&
      Math.abs((last.windowMs ?? 0) - (known.windowMs ?? 0)) <= 0.02 * (known.windowMs ?? 0) &&
      known.observedAt - last.observedAt < REPORT_INTERVAL_MS
    if (isSame) return
    this.#last = known
    this.#onChange?.(known)
  }
}
