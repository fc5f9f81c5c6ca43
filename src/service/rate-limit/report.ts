import type { KnownLimit, RateStatus } from '../../domain/rate-status.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import { formatCount, formatDuration } from '../../util/text.ts'
import type { DocumentedLimits } from './documented-limits.ts'
import type { EndpointModels } from './endpoint-models.ts'
import { untilText, type AllowanceMeter } from './state.ts'

/** The limit to report: what headers state, or else what refusals have shown, or else what the service documents. */
export function findLimit(
  { reported: model, documented }: Pick<EndpointModels, 'reported' | 'documented'>,
  now: number,
): Pick<KnownLimit, 'windowMs' | 'isLearnt'> & { readonly limit: number | null } {
  if (model.learnt !== null) {
    const { calls, windowMs } = model.learnt
    return { limit: calls, windowMs: Math.round(windowMs), isLearnt: true }
  }
  const binding = model.limit === null ? documented.binding(now) : null
  if (!binding) return { limit: model.limit, windowMs: model.windowMs }
  return { limit: binding.limit.calls, windowMs: binding.limit.windowMs }
}

/** The status to report. @param waiting the endpoints for which calls wait */
export function reportRate(
  models: EndpointModels,
  waiting: ReadonlySet<CalledEndpoint | null>,
  allowance: AllowanceMeter,
  now: number,
): Omit<RateStatus, 'stalledForMs'> {
  const model = models.reported
  const modelState = model.state(now)
  const binding = models.documented.binding(now)
  const isPaced = binding !== null && model.limit === null && model.learnt === null
  const nextWindowAt = isPaced && modelState !== 'cooldown' ? binding.nextAt : model.nextWindowAt(now)
  const { callsSent: sent } = models
  // Of several limits none says how many calls all of them permit.
  const allowed = models.isByEndpoint ? null : allowance.total(now)
  const permitted = allowed === null ? null : Math.max(sent, allowed)
  const { limit, windowMs } = findLimit(models, now)
  return {
    limit,
    windowMs,
    state: isPaced && (modelState === 'cold' || modelState === 'unlimited') ? 'documented' : modelState,
    windowAtMostMs: isPaced ? null : model.windowAtMostMs,
    used: sent,
    permitted,
    utilisation: permitted === null || permitted === 0 ? null : sent / permitted,
    // A call near the boundary is counted in both windows, so that none is too many: the service counts it in one.
    windowUsed: Math.min(isPaced ? binding.used : model.windowUsed(now), limit ?? Number.POSITIVE_INFINITY),
    nextWindowAt,
    nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
    stallReason: describeStall(models, waiting, binding, now),
    throttled: models.throttled,
    sharedKey: model.isShared,
    overstated: models.overstated,
    learnt: models.learnt,
  }
}

function describeStall(
  models: EndpointModels,
  waiting: ReadonlySet<CalledEndpoint | null>,
  binding: ReturnType<DocumentedLimits['binding']>,
  now: number,
): string | null {
  if (waiting.size === 0) return null
  const [stalled = null] = [...waiting].flatMap((endpoint) => models.stallReason(endpoint, now) ?? [])
  if (stalled !== null || binding === null || binding.used < binding.limit.calls) return stalled
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
