import type { DashboardData } from '../../../actions/dashboard-data.ts'
import { readRateLimits } from '../../../actions/status.ts'
import { listRequestCounts, type RequestCount } from '../../../store/metrics.ts'
import { formatCount, formatDuration } from '../../../util/format.ts'
import { chartFigure } from '../chart.ts'
import { badge, card, clockTime, count, dataTable, empty, pageHead, percentOfTotal } from '../components.ts'
import { html, livePart, type Html } from '../html.ts'
import type { Page } from '../page.ts'
import {
  callsChart,
  callSteps,
  type CallStep,
  durationPercentile,
  latencyChart,
  outcomeGroup,
  rateLimitStatus,
  type StepSpan,
} from './rate-limit.ts'

/** The spans to choose from, each with the length of its steps. */
const SPANS: ReadonlyArray<readonly [hours: number, stepMs: number]> = [
  [1, 10_000],
  [6, 60_000],
  [24, 300_000],
]
const TABLE_LINES = 12

interface ServicePageData extends Pick<DashboardData, 'rateLimits' | 'readAt'> {
  readonly hours: number
  /** Of the span. */
  readonly calls: readonly RequestCount[]
}

const spanOf = (hours: number): Required<StepSpan> => ({
  lengthMs: hours * 3_600_000,
  stepMs: SPANS.find(([one]) => one === hours)?.[1] ?? 10_000,
})

/** How the service has answered: rate, latency and errors. */
export const servicePage: Page = {
  path: '/service',
  name: 'Service',
  isLive: true,
  show: async ({ query }, { db }) => {
    const hours = SPANS.find(([one]) => String(one) === query.get('hours'))?.[0] ?? 1
    const span = spanOf(hours)
    const data: ServicePageData = {
      hours,
      rateLimits: await readRateLimits(db),
      calls: await listRequestCounts(db, span.lengthMs),
      readAt: Date.now(),
    }
    const { calls, rateLimits, readAt } = data
    return {
      body: html`${pageHead('Service', spanChoice(hours))}
      ${card(
        'calls',
        'Calls',
        html`<div class="columns">
          <div>${rateLimitStatus(data)}</div>
          ${chartFigure('calls-chart', `API calls per second, ${spanText(hours)}`, callsChart(calls, readAt, span, rateLimits[0] ?? null))}
        </div>`,
      )}
      ${card('latency', 'Latency', [calls.length === 0 && empty(`No call in ${spanText(hours)}.`), chartFigure('latency-chart', `Duration of API calls, ${spanText(hours)}`, latencyChart(calls, readAt, span)), latencyTable(data)])}
      ${answersSection(data)}`,
    }
  },
}

const spanText = (hours: number): string => (hours === 1 ? 'the last hour' : `the last ${hours} hours`)

const spanChoice = (chosen: number): Html =>
  html`<nav class="tabs" aria-label="Time span">
    ${SPANS.map(
      ([hours]) =>
        html`<a href="/service?hours=${hours}" ${hours === chosen && html` aria-current="true"`}
          >${hours} h</a
        >`,
    )}
  </nav>`

/** The same as the charts show, in numbers. */
function latencyTable({ calls, readAt, hours }: ServicePageData): Html {
  const stepMs = spanOf(hours).lengthMs / TABLE_LINES
  const steps = callSteps(calls, readAt, { lengthMs: hours * 3_600_000, stepMs }).toReversed()
  const ms = (value: number | null): string | null => (value === null ? null : formatDuration(value))
  return livePart(
    'latency-table',
    html`<details id="latency-table">
      <summary>Show as table</summary>
      ${dataTable<CallStep>(
        'Calls and their durations, latest first',
        [
          { name: 'from', kind: 'row', cell: ({ at }) => clockTime(new Date(at)) },
          { name: 'answered', kind: 'number', cell: ({ answered }) => count(answered) },
          { name: 'throttled', kind: 'number', cell: ({ throttled }) => count(throttled) },
          { name: 'failed', kind: 'number', cell: ({ failed }) => count(failed) },
          { name: 'median', kind: 'number', cell: (step) => ms(durationPercentile(step, 0.5)) },
          { name: '95% within', kind: 'number', cell: (step) => ms(durationPercentile(step, 0.95)) },
          { name: 'slowest', kind: 'number', cell: ({ maxMs }) => (maxMs === 0 ? null : ms(maxMs)) },
        ],
        steps,
      )}
    </details>`,
  )
}

const STATUS_MEANINGS: Readonly<Record<string, string>> = {
  '200': 'a record',
  '202': 'accepted as a job',
  '400': 'the input is rejected',
  '401': 'the key is rejected',
  '403': 'access denied',
  '404': 'no match',
  '422': 'the input is rejected',
  '429': 'throttled: beyond the limit',
  none: 'no answer: timeout, or no connection',
}

/** The answers of the span by endpoint and status. */
function answersSection({ calls, hours }: ServicePageData): Html {
  const sums = new Map<string, { endpoint: string; status: string; calls: number }>()
  for (const { endpoint, status, calls: n } of calls) {
    const key = `${endpoint} ${status}`
    sums.set(key, { endpoint, status, calls: (sums.get(key)?.calls ?? 0) + n })
  }
  const total = calls.reduce((sum, one) => sum + one.calls, 0)
  const lines = [...sums.values()].toSorted((a, b) => b.calls - a.calls)
  return card(
    'answers',
    'Answers',
    lines.length === 0
      ? empty(`No call in ${spanText(hours)}.`)
      : dataTable<(typeof lines)[number]>(
          `Answers by endpoint and status, ${spanText(hours)}`,
          [
            {
              name: 'status',
              kind: 'row',
              cell: ({ status }) =>
                badge(
                  status,
                  { answered: 'good', throttled: 'warn', failed: 'bad' }[outcomeGroup(status)] as 'good',
                ),
            },
            {
              name: 'meaning',
              kind: 'text',
              cell: ({ status }) =>
                STATUS_MEANINGS[status] ?? (status.startsWith('5') ? 'the service failed' : null),
            },
            { name: 'endpoint', cell: ({ endpoint }) => endpoint },
            { name: 'calls', kind: 'number', cell: (one) => formatCount(one.calls) },
            { name: 'share', kind: 'number', cell: (one) => percentOfTotal(one.calls, total) },
          ],
          lines,
        ),
  )
}
