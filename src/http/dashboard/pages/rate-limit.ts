import { formatState } from '../../../domain/row.ts'
import { CHANGE_LIMIT, formatLimit, formatOverstated } from '../../../domain/rate-status.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../../util/format.ts'
import { HOUR_MS, type DashboardData } from '../../../actions/dashboard-data.ts'
import type { RateLimitStatus } from '../../../actions/status.ts'
import { REQUEST_COUNT_STEP_MS, type RequestCount } from '../../../store/metrics.ts'
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

/** Calls in one step, by outcome. */
interface CallStep {
  /** Start of the step, in milliseconds since the epoch. */
  readonly at: number
  /** The service answered: a record, no match, or invalid input. */
  readonly answered: number
  /** 429. */
  readonly throttled: number
  /** 5xx, a rejected key, or no answer. */
  readonly failed: number
}

type CallOutcomeGroup = 'answered' | 'throttled' | 'failed'

function outcomeGroup(status: string): CallOutcomeGroup {
  if (status === '429') return 'throttled'
  return /^2..$|^40[04]$|^422$/.test(status) ? 'answered' : 'failed'
}

/** A span of steps up to now. */
interface StepSpan {
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
  }))
  for (const { at, status, calls: n } of calls) {
    const step = steps[Math.floor((at - first) / stepMs)]
    if (step !== undefined) step[outcomeGroup(status)] += n
  }
  return steps
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
