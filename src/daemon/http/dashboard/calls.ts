import { STEP_MS, type CallCount } from '../../../store/meters.ts'

/** Calls of one step, told by how they ended. */
export interface CallStep {
  /** Its beginning, in milliseconds since the epoch. */
  readonly at: number
  /** The service gave an answer: a record, or that it knows none, or that the question is no good. */
  readonly answered: number
  /** 429. */
  readonly throttled: number
  /** 5xx, a refused key, no answer at all. */
  readonly failed: number
}

type Ending = Exclude<keyof CallStep, 'at'>

function endingOf(status: string): Ending {
  if (status === '429') return 'throttled'
  return /^2..$|^40[04]$|^422$/.test(status) ? 'answered' : 'failed'
}

/** The calls up to now in steps of one length, those without a call too. Pure. */
export function callSteps(
  calls: readonly CallCount[],
  now: number,
  span: { readonly lengthMs: number; readonly stepMs?: number },
): CallStep[] {
  const { lengthMs, stepMs = STEP_MS } = span
  const last = Math.floor(now / stepMs) * stepMs
  const first = last - lengthMs + stepMs
  const steps = Array.from({ length: Math.round(lengthMs / stepMs) }, (_, n) => ({
    at: first + n * stepMs,
    answered: 0,
    throttled: 0,
    failed: 0,
  }))
  for (const { at, status, calls: n } of calls) {
    const step = steps[Math.floor((at - first) / stepMs)]
    if (step !== undefined) step[endingOf(status)] += n
  }
  return steps
}

export interface ChartData {
  /** Seconds since the epoch. */
  readonly at: readonly number[]
  /** Calls a second. */
  readonly answered: readonly number[]
  readonly throttled: readonly number[]
  readonly failed: readonly number[]
  /** What the service allows a second; null where that is not known. */
  readonly allowed: number | null
}

/** A picture of less than this has no shape, in milliseconds. */
const SHORTEST_MS = 5 * 60_000

/** The last hour for the chart, from its first call on. Pure. */
export function chartData(
  calls: readonly CallCount[],
  now: number,
  lengthMs: number,
  quota: { readonly limit: number | null; readonly windowMs: number | null } | null,
): ChartData {
  const first = calls[0]?.at ?? now
  const length = Math.min(lengthMs, Math.max(SHORTEST_MS, now - first + 6 * STEP_MS))
  // The step that is under way would look like a fall.
  const steps = callSteps(calls, now - STEP_MS, { lengthMs: Math.ceil(length / STEP_MS) * STEP_MS })
  const rate = (ending: Ending): number[] => steps.map((step) => (step[ending] * 1_000) / STEP_MS)
  return {
    at: steps.map((step) => step.at / 1_000),
    answered: rate('answered'),
    throttled: rate('throttled'),
    failed: rate('failed'),
    allowed: quota?.limit == null || quota.windowMs === null ? null : (quota.limit * 1_000) / quota.windowMs,
  }
}
