import { formatState } from '../../../domain/row.ts'
import { CHANGE_LIMIT, formatLimit, formatOverstated } from '../../../domain/rate-status.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../../util/format.ts'
import { HOUR_MS, type DashboardData } from '../../../actions/dashboard-data.ts'
import type { RateLimitStatus } from '../../../actions/status.ts'
import { CALL_DURATION_BOUNDS_MS, REQUEST_COUNT_STEP_MS, type RequestCount } from '../../../store/metrics.ts'
import { chartFigure, type ChartData, withoutIdleZeros } from '../chart.ts'
import { badge, definitionList, ratio, shareBar, timeAgo } from '../components.ts'
import { html, livePart, type Html, type HtmlPart } from '../html.ts'

type LeaderStatus = NonNullable<RateLimitStatus['status']>

/** The rate limit, as the leader reported it last. */
export function rateLimitStatus({
  rateLimits,
  readAt: at,
}: Pick<DashboardData, 'rateLimits' | 'readAt'>): Html {
  const body =
    rateLimits.length === 0
      ? html`<p class="empty">
          The service has not reported a rate limit yet: it does with its first answers.
        </p>`
      : rateLimits.map((one) => rateLimitFields(one, at))
  return livePart('quota', html`<div id="quota">${body}</div>`)
}

function rateLimitFields(
  { scope, service = null, limit, windowMs, observedAt, status }: RateLimitStatus,
  at: number,
): Html {
  const [host = scope, key] = scope.split(' ')
  const isNow = status?.isLive === true
  const fields: [string, HtmlPart][] = [
    ['Rate limit', formatLimit(limit, windowMs, status?.windowAtMostMs)],
    ...(isNow ? currentWindowFields(status, limit, at) : []),
    ...(status === null || status.limit === null ? [] : usageFields(status)),
  ]
  return html`<p class="sub">
      ${service !== null && html`<strong>${service}</strong>, `}${host}${key !== undefined && html`, key <code>${key}</code>`}
      ·
      ${
        isNow
          ? badge('calling', 'busy')
          : html`idle; last reported ${timeAgo(status?.reportedAt ?? new Date(observedAt), at)}`
      }
    </p>
    ${definitionList(fields)}`
}

function currentWindowFields(status: LeaderStatus, limit: number, at: number): [string, HtmlPart][] {
  const { windowUsed: used, nextWindowAt: next } = status
  return [
    [
      'Used in this window',
      html`${formatCount(used)} of ${formatCount(limit)}
      ${shareBar([{ share: ratio(used, limit), look: 'flow' }])}`,
    ],
    ['Resets', next === null ? 'not known yet' : next <= at ? 'now' : `in ${formatDuration(next - at)}`],
    ['State', status.stallReason ?? formatState(status.state)],
  ]
}

const usageFields = (status: LeaderStatus): [string, HtmlPart][] => [
  [
    'Utilisation',
    status.utilisation === null
      ? null
      : `${formatPercent(status.utilisation)} (${pluralize(status.used, 'call')})`,
  ],
  ['Throttled', status.throttled === 0 ? 'never' : `${formatCount(status.throttled)} (429)`],
  ...(status.overstated
    ? [['Too high', `${formatOverstated(status.overstated)}: ${CHANGE_LIMIT}`] as [string, HtmlPart]]
    : []),
]

/** The calls of the last hour. */
export const callsFigure = (data: Pick<DashboardData, 'calls' | 'readAt' | 'rateLimits'>): Html =>
  chartFigure(
    'calls-chart',
    'API calls per second, last hour',
    callsChart(data.calls, data.readAt, { lengthMs: HOUR_MS }, data.rateLimits[0] ?? null),
  )

/** Calls in one step, by outcome, with how long they took. */
export interface CallStep {
  /** Start of the step, in milliseconds since the epoch. */
  readonly at: number
  /** The service answered: a record, no match, or invalid input. */
  readonly answered: number
  /** 429. */
  readonly throttled: number
  /** 5xx, a rejected key, or no answer. */
  readonly failed: number
  /** As in `RequestCount`. */
  readonly durations: readonly number[]
  readonly maxMs: number
}

type CallOutcomeGroup = 'answered' | 'throttled' | 'failed'

export function outcomeGroup(status: string): CallOutcomeGroup {
  if (status === '429') return 'throttled'
  return /^2..$|^40[04]$|^422$/.test(status) ? 'answered' : 'failed'
}

/** A span of steps up to now. */
export interface StepSpan {
  readonly lengthMs: number
  readonly stepMs?: number
}

/** Groups calls into steps of equal length, including empty ones, up to now. Pure. */
export function callSteps(calls: readonly RequestCount[], now: number, span: StepSpan): CallStep[] {
  const { lengthMs, stepMs = REQUEST_COUNT_STEP_MS } = span
  const last = Math.floor(now / stepMs) * stepMs
  const first = last - lengthMs + stepMs
  const steps = Array.from({ length: Math.round(lengthMs / stepMs) }, (_, n) => ({
    at: first + n * stepMs,
    answered: 0,
    throttled: 0,
    failed: 0,
    durations: CALL_DURATION_BOUNDS_MS.map(() => 0).concat(0),
    maxMs: 0,
  }))
  for (const { at, status, calls: n, durations, maxMs } of calls) {
    const step = steps[Math.floor((at - first) / stepMs)]
    if (step === undefined) continue
    step[outcomeGroup(status)] += n
    step.durations = step.durations.map((sum, slot) => sum + (durations[slot] ?? 0))
    step.maxMs = Math.max(step.maxMs, maxMs)
  }
  return steps
}

/**
 * The duration that a share of the calls did not exceed, in milliseconds; null without calls. Between two bounds it is
 * interpolated, so it is right to the distance of the bounds. Pure.
 */
export function durationPercentile(
  { durations, maxMs }: Pick<CallStep, 'durations' | 'maxMs'>,
  share: number,
): number | null {
  const total = durations.reduce((sum, n) => sum + n, 0)
  if (total === 0) return null
  let before = 0
  for (const [slot, calls] of durations.entries()) {
    if (before + calls >= share * total && calls > 0) {
      const low = CALL_DURATION_BOUNDS_MS[slot - 1] ?? 0
      const high = Math.min(CALL_DURATION_BOUNDS_MS[slot] ?? maxMs, maxMs)
      return Math.max(0, Math.min(high, low + (high - low) * ((share * total - before) / calls)))
    }
    before += calls
  }
  return maxMs
}

/** Shortest time span of the chart, in milliseconds. */
const MIN_CHART_MS = 5 * 60_000

/**
 * The steps of a chart: the span, from its first call on. The current step is incomplete and would look like a drop, so
 * it is left out, unless there is no other with a call.
 */
function chartSteps(calls: readonly RequestCount[], now: number, span: StepSpan): CallStep[] {
  const { lengthMs, stepMs = REQUEST_COUNT_STEP_MS } = span
  const first = calls[0]?.at ?? now
  const end = first >= Math.floor(now / stepMs) * stepMs ? now : now - stepMs
  const length = Math.min(lengthMs, Math.max(MIN_CHART_MS, now - first + 6 * stepMs))
  return callSteps(calls, end, { lengthMs: Math.ceil(length / stepMs) * stepMs, stepMs })
}

/**
 * Calls per second by outcome, and what the service allowed. Pure.
 * @param limit of the service; null: unknown
 */
export function callsChart(
  calls: readonly RequestCount[],
  now: number,
  span: StepSpan,
  limit: Pick<RateLimitStatus, 'limit' | 'windowMs'> | null,
): ChartData {
  const steps = chartSteps(calls, now, span)
  const stepMs = span.stepMs ?? REQUEST_COUNT_STEP_MS
  const rate = (group: CallOutcomeGroup): number[] => steps.map((step) => (step[group] * 1_000) / stepMs)
  const allowed = limit?.windowMs == null ? null : (limit.limit * 1_000) / limit.windowMs
  return {
    unit: 'per second',
    at: steps.map((step) => step.at / 1_000),
    series: [
      { name: 'answered', color: 'flow', look: 'area', values: rate('answered') },
      {
        name: 'throttled (429)',
        color: 'warn-fill',
        look: 'area',
        values: withoutIdleZeros(rate('throttled')),
      },
      { name: 'failed', color: 'bad', look: 'area', values: withoutIdleZeros(rate('failed')) },
      ...(allowed === null
        ? []
        : [
            {
              name: 'allowed',
              color: 'soft' as const,
              look: 'dashed' as const,
              values: steps.map(() => allowed),
            },
          ]),
    ],
  }
}

/** The latency of calls: the median, and what 95 of 100 calls do not exceed. Pure. */
export function latencyChart(calls: readonly RequestCount[], now: number, span: StepSpan): ChartData {
  const steps = chartSteps(calls, now, span)
  const percentile = (share: number): (number | null)[] =>
    steps.map((step) => durationPercentile(step, share))
  return {
    unit: 'ms',
    at: steps.map((step) => step.at / 1_000),
    series: [
      { name: 'median', color: 'flow', look: 'line', values: percentile(0.5) },
      { name: '95% within', color: 'warn-fill', look: 'line', values: percentile(0.95) },
    ],
  }
}
