import type { DashboardData, Verdict } from '../actions/dashboard-data.ts'
import type { SpendReport } from '../actions/spend.ts'
import { Job } from '../domain/job.ts'
import { ROW_STATES } from '../domain/row.ts'
import { Run } from '../domain/run.ts'
import { type TroubleCode, TROUBLES } from '../domain/trouble.ts'
import type { QueuedChanges } from '../store/changed-rows.ts'
import type { StoredMetrics } from '../store/metrics-data.ts'

/** What is known of Fillrate's work: what the dashboard shows, and more. */
export interface MetricsInput extends StoredMetrics {
  readonly data: DashboardData & Pick<Verdict, 'troubles'>
  /** The service and key of this process, whose series exist before the first call. Null: none is configured. */
  readonly scopes: readonly string[]
  /** When it was read, in milliseconds. */
  readonly now: number
  /** Sources in live sync. */
  readonly followed: readonly string[]
}

interface MetricSample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number
}

type GaugeList = readonly (readonly [name: string, help: string, samples: readonly MetricSample[]])[]

/** Every gauge with its present values. */
export const listGauges = (input: MetricsInput): GaugeList => [
  ...rowGauges(input),
  ...jobGauges(input),
  ...serviceGauges(input),
  ...runGauges(input),
  ...spendGauges(input),
  ...liveSyncGauges(input),
  ...troubleGauges(input),
]

function rowGauges({ data: { sources } }: MetricsInput): GaugeList {
  return [
    [
      'fillrate_rows',
      'Rows ever picked, by source and state.',
      sources.flatMap(({ name, states }) =>
        ROW_STATES.map((state) => ({ labels: { source: name, state }, value: states[state] })),
      ),
    ],
    [
      'fillrate_fill_rate_ratio',
      'Share of eligible rows with a non-blank column, at the last count.',
      sources.flatMap(({ name, fillRates }) => {
        const last = fillRates.at(-1)
        return Object.entries(last?.filled ?? {}).map(([column, filled]) => ({
          labels: { source: name, column },
          value: last === undefined || last.eligible === 0 ? 0 : filled / last.eligible,
        }))
      }),
    ],
    [
      'fillrate_source_paused',
      '1 if the source is paused.',
      sources.map(({ name, pause }) => ({ labels: { source: name }, value: pause === null ? 0 : 1 })),
    ],
  ]
}

function jobGauges({ data: { jobs, readAt }, oldestDeliverySeconds }: MetricsInput): GaugeList {
  const ageOf = (date: Date): number => Math.max(0, (readAt - date.getTime()) / 1_000)
  const open = jobs.filter((group) => group.deadline !== null)
  return [
    [
      'fillrate_jobs',
      'Bulk jobs by state.',
      Object.values(Job).map((state) => ({
        labels: { state },
        value: jobs.find((group) => group.state === state)?.jobs ?? 0,
      })),
    ],
    [
      'fillrate_oldest_waiting_job_seconds',
      'Age of the oldest job waiting for its delivery; 0: none.',
      [{ value: Math.max(0, ...open.map((group) => ageOf(group.oldest))) }],
    ],
    [
      'fillrate_overdue_jobs',
      'Jobs past their deadline, and expired ones until another delivery comes.',
      [{ value: jobs.reduce((sum, group) => sum + group.overdue, 0) }],
    ],
    [
      'fillrate_oldest_unsettled_delivery_seconds',
      'Age of the oldest unsettled delivery; 0: none.',
      [{ value: oldestDeliverySeconds }],
    ],
  ]
}

/** A scope names the host of the service and the fingerprint of the key. */
function toScopeLabels(scope: string): { host: string; key: string } {
  const [host = '', key = ''] = scope.split(' ')
  return { host, key }
}

/** Troubles in which the service answers no call with this key. */
const KEY_TROUBLES: ReadonlySet<TroubleCode> = new Set(['key_refused', 'banned'])

function serviceGauges({
  data: { rateLimits, troubles },
  openCircuits,
  scopes: own,
}: MetricsInput): GaugeList {
  const scopes = new Set([...own, ...rateLimits.map((limit) => limit.scope), ...openCircuits])
  const refused = new Set(troubles.filter(({ code }) => KEY_TROUBLES.has(code)).map(({ subject }) => subject))
  const ofScopes = (isSet: (scope: string) => boolean): MetricSample[] =>
    [...scopes].map((one) => ({ labels: toScopeLabels(one), value: isSet(one) ? 1 : 0 }))
  return [
    [
      'fillrate_rate_limit_requests',
      'Calls that the service allows per window.',
      rateLimits.map((one) => ({ labels: toScopeLabels(one.scope), value: one.limit })),
    ],
    [
      'fillrate_rate_limit_window_seconds',
      'Length of the rate limit window.',
      rateLimits.flatMap((one) =>
        one.windowMs === null ? [] : [{ labels: toScopeLabels(one.scope), value: one.windowMs / 1_000 }],
      ),
    ],
    [
      'fillrate_rate_limit_remaining_requests',
      'Calls remaining in the current window.',
      rateLimits.map((one) => ({
        labels: toScopeLabels(one.scope),
        value: one.status?.isLive ? Math.max(0, one.limit - one.status.windowUsed) : one.limit,
      })),
    ],
    [
      'fillrate_circuit_open',
      '1 while calls are stopped because the service fails.',
      ofScopes((one) => openCircuits.includes(one)),
    ],
    [
      'fillrate_key_usable',
      '0 while the service refuses the key, or has banned it.',
      ofScopes((one) => !refused.has(one)),
    ],
  ]
}

function runGauges({ data: { runs, runningRuns }, runEnds }: MetricsInput): GaugeList {
  const ended = runs.find((run) => run.state !== Run.running)
  return [
    ['fillrate_runs_running', 'Runs in progress.', [{ value: runningRuns }]],
    [
      'fillrate_last_run_end_timestamp_seconds',
      'End of the last run by trigger and outcome.',
      runEnds.map(({ trigger, status, at }) => ({
        labels: { trigger, status },
        value: at.getTime() / 1_000,
      })),
    ],
    [
      'fillrate_last_run_failed',
      '1 if the run that ended last failed.',
      ended === undefined ? [] : [{ value: ended.state === Run.failed ? 1 : 0 }],
    ],
  ]
}

/** Of one kind, runs in progress among them, the budget with the least left. */
function spendGauges({ data: { spend, sources, lookupsToday: today } }: MetricsInput): GaugeList {
  const left = new Map<string, number>()
  for (const { kind, source, left: remaining } of spend.budgets)
    if (source === null && remaining !== null)
      left.set(kind, Math.min(left.get(kind) ?? Number.POSITIVE_INFINITY, remaining))
  const names = new Set([...sources.map(({ name }) => name), ...Object.keys(today)])
  return [
    [
      'fillrate_budget_remaining_lookups',
      'Lookups left of a budget: live_sync of the day (UTC), run and schedule of a run in progress.',
      [...left].map(([budget, value]) => ({ labels: { budget }, value })),
    ],
    [
      'fillrate_lookups_spent_today',
      'Billed lookups since midnight UTC, by source.',
      [...names].map((source) => ({ labels: { source }, value: today[source] ?? 0 })),
    ],
    ...(spend.services === undefined ? [] : [serviceSpendGauge(spend.services)]),
  ]
}

const serviceSpendGauge = (services: NonNullable<SpendReport['services']>): GaugeList[number] => [
  'fillrate_service_lookups_spent_today',
  'Billed lookups since midnight UTC, by service; only where there are several.',
  services.map(({ service, host, today }) => ({ labels: { service, host }, value: today.lookups })),
]

function liveSyncGauges({ backlogs, followed, now }: MetricsInput): GaugeList {
  const sources = [...new Set([...followed, ...backlogs.map(({ source }) => source)])]
  const ofSource = (name: string) => backlogs.filter(({ source }) => source === name)
  const ageMs = ({ oldestAt }: QueuedChanges): number => now - oldestAt.getTime()
  return [
    [
      'fillrate_live_sync_backlog_rows',
      'Changed rows that live sync has not picked yet, by source.',
      sources.map((source) => ({
        labels: { source },
        value: ofSource(source).reduce((sum, { rows }) => sum + rows, 0),
      })),
    ],
    [
      'fillrate_live_sync_oldest_seconds',
      'Age of the oldest change that live sync has not picked yet, by source; 0: none.',
      sources.map((source) => ({
        labels: { source },
        value: Math.max(0, ...ofSource(source).map(ageMs)) / 1_000,
      })),
    ],
  ]
}

/**
 * Every code is there, with 0 while nothing is open, so that an alert need not distinguish "none" from
 * "not measured".
 */
function troubleGauges({ data: { troubles } }: MetricsInput): GaugeList {
  return [
    [
      'fillrate_trouble',
      '1 while a trouble lasts, by code, subject and severity.',
      [
        ...troubles.map(({ code, subject, severity }) => ({ labels: { code, subject, severity }, value: 1 })),
        ...Object.entries(TROUBLES)
          .filter(([code]) => !troubles.some((one) => one.code === code && one.subject === ''))
          .map(([code, { severity }]) => ({ labels: { code, subject: '', severity }, value: 0 })),
      ],
    ],
  ]
}
