import {
  formatCount,
  pluralize,
  formatDuration,
  formatPercent,
  formatPerSecond,
} from '../../../util/format.ts'
import { HOUR_MS, type DashboardData } from '../../../actions/dashboard-data.ts'
import type { RateLimitStatus } from '../../../actions/status.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import {
  badge,
  definitionList,
  shareBar,
  stateLabel,
  numberCell,
  card,
  ratio,
  timeAgo,
} from '../components.ts'
import { REQUEST_COUNT_STEP_MS, type RequestCount } from '../../../store/metrics.ts'

type LeaderStatus = NonNullable<RateLimitStatus['status']>

const TABLE_STEP_MS = 5 * 60_000

/** The rate limit, as the leader reported it last. */
export function rateLimitStatus({ rateLimits, readAt: at }: DashboardData): Html {
  const body =
    rateLimits.length === 0
      ? html`<p class="empty">The service has not reported a rate limit yet.</p>`
      : rateLimits.map((one) => rateLimitFields(one, at))
  return html`<div id="quota">${body}</div>`
}

function rateLimitFields({ scope, limit, windowMs, observedAt, status }: RateLimitStatus, at: number): Html {
  const [host = scope, key] = scope.split(' ')
  const isNow = status?.isLive === true
  const fields: [string, HtmlPart][] = [
    [
      'Rate limit',
      windowMs === null
        ? `${pluralize(limit, 'call')}, window ${status?.windowAtMostMs == null ? 'not known yet' : `of at most ${formatDuration(status.windowAtMostMs)}`}`
        : `${pluralize(limit, 'call')} in ${formatDuration(windowMs)}`,
    ],
    ...(isNow ? currentWindowFields(status, limit, at) : []),
    ...(status === null || status.limit === null ? [] : usageFields(status)),
  ]
  return html`<p class="sub">
      ${host}${key !== undefined && html`, key <code>${key}</code>`} ·
      ${
        isNow
          ? badge('active', 'busy')
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
    ['Resets', next === null ? 'unknown' : `in ${formatDuration(Math.max(0, next - at))}`],
    ['State', status.stallReason ?? stateLabel(status.state)],
  ]
}

const usageFields = (status: LeaderStatus): [string, HtmlPart][] => [
  [
    'Utilisation',
    status.utilisation === null
      ? '–'
      : `${formatPercent(status.utilisation)} (${formatCount(status.used)} calls)`,
  ],
  ['Throttled (429)', formatCount(status.throttled)],
]

/** The calls of the last hour: a chart, kept live by the page's script, and the same data as a table. */
export function rateSection(data: DashboardData): Html {
  return card(
    'rate',
    'Rate limit and API calls',
    html`<div class="columns">
      <div>${rateLimitStatus(data)}</div>
      <figure>
        <figcaption>API calls per second, last hour</figcaption>
        <div id="chart" class="chart" aria-hidden="true">${callsChart(data)}</div>
        <div id="calls-table">${callsTable(data)}</div>
      </figure>
    </div>`,
  )
}

export function callsTable({ calls, readAt: at }: DashboardData): Html {
  const lines = callSteps(calls, at, { lengthMs: HOUR_MS, stepMs: TABLE_STEP_MS }).toReversed()
  return html`<details id="calls-details">
    <summary>Show as table</summary>
    <table>
      <caption>
        API calls per five minutes, latest first
      </caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col" class="n">answered</th>
          <th scope="col" class="n">throttled</th>
          <th scope="col" class="n">failed</th>
          <th scope="col" class="n">per second</th>
        </tr>
      </thead>
      <tbody>
        ${lines.map(
          (one) =>
            html`<tr>
              <th scope="row">${timeAgo(new Date(one.at), at)}</th>
              ${numberCell(one.answered)}${numberCell(one.throttled)}${numberCell(one.failed)}
              <td class="n">
                ${formatPerSecond((one.answered + one.throttled + one.failed) / (TABLE_STEP_MS / 1_000))}
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </details>`
}

/** The chart without JavaScript. */
function callsChart({ calls, readAt: at }: DashboardData): Html {
  const steps = callSteps(calls, at, { lengthMs: HOUR_MS, stepMs: 60_000 })
  const most = Math.max(1, ...steps.map((one) => one.answered + one.throttled + one.failed))
  return html`<svg viewBox="0 0 600 120" preserveAspectRatio="none">
    ${steps.map((one, n) => {
      const height = (116 * (one.answered + one.throttled + one.failed)) / most
      return (
        height > 0 &&
        html`<rect
          class="flow"
          x="${n * 10}"
          y="${(120 - height).toFixed(1)}"
          width="9"
          height="${height.toFixed(1)}"
        />`
      )
    })}
  </svg>`
}

/** Calls in one step, by outcome. */
export interface CallStep {
  /** Start of the step, in milliseconds since the epoch. */
  readonly at: number
  /** The service answered: a record, no match, or invalid input. */
  readonly answered: number
  /** 429. */
  readonly throttled: number
  /** 5xx, a rejected key, or no answer. */
  readonly failed: number
}

type CallOutcomeGroup = Exclude<keyof CallStep, 'at'>

function outcomeGroup(status: string): CallOutcomeGroup {
  if (status === '429') return 'throttled'
  return /^2..$|^40[04]$|^422$/.test(status) ? 'answered' : 'failed'
}

/** Groups calls into steps of equal length, including empty ones, up to now. Pure. */
export function callSteps(
  calls: readonly RequestCount[],
  now: number,
  span: { readonly lengthMs: number; readonly stepMs?: number },
): CallStep[] {
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

export interface ChartData {
  /** Seconds since the epoch. */
  readonly at: readonly number[]
  /** Calls a second. */
  readonly answered: readonly number[]
  readonly throttled: readonly number[]
  readonly failed: readonly number[]
  /** Calls a second that the service allows; null if unknown. */
  readonly allowed: number | null
}

/** Shortest time span of the chart, in milliseconds. */
const MIN_CHART_MS = 5 * 60_000

/** The chart's data: the last hour, from its first call on. Pure. */
export function chartData(
  calls: readonly RequestCount[],
  now: number,
  lengthMs: number,
  quota: { readonly limit: number | null; readonly windowMs: number | null } | null,
): ChartData {
  const first = calls[0]?.at ?? now
  const length = Math.min(lengthMs, Math.max(MIN_CHART_MS, now - first + 6 * REQUEST_COUNT_STEP_MS))
  // The current step is incomplete and would look like a drop.
  const steps = callSteps(calls, now - REQUEST_COUNT_STEP_MS, {
    lengthMs: Math.ceil(length / REQUEST_COUNT_STEP_MS) * REQUEST_COUNT_STEP_MS,
  })
  const rate = (ending: CallOutcomeGroup): number[] =>
    steps.map((step) => (step[ending] * 1_000) / REQUEST_COUNT_STEP_MS)
  return {
    at: steps.map((step) => step.at / 1_000),
    answered: rate('answered'),
    throttled: rate('throttled'),
    failed: rate('failed'),
    allowed: quota?.limit == null || quota.windowMs === null ? null : (quota.limit * 1_000) / quota.windowMs,
  }
}
