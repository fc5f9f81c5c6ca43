import { expect, test } from 'vitest'
import { CONDITION_KINDS, severityOf } from '../../../src/domain/condition.ts'
import { evaluateRules, isPromtoolMissing } from '../../support/promtool.ts'

const DAY = 24 * 60
const DAYS = Array.from({ length: 30 }, (_, n) => n)

/** Minutes from, to (exclusive), and the value there; `_`: no sample. */
type Span = readonly [from: number, to: number, value: string]

/** Writes one sample a minute as promtool reads it. A later span covers an earlier one. */
function toSamples(usual: string, spans: readonly Span[]): string {
  const samples = Array.from({ length: DAYS.length * DAY }, () => usual)
  for (const [from, to, value] of spans) samples.fill(value, from, to)
  const runs: { value: string; count: number }[] = []
  for (const value of samples) {
    const last = runs.at(-1)
    if (last?.value === value) last.count++
    else runs.push({ value, count: 1 })
  }
  return runs.map(({ value, count }) => (value === '_' ? `_x${count}` : `${value}x${count - 1}`)).join(' ')
}

test.skipIf(isPromtoolMissing())(
  'a month without a fault, with deployments, restarts and outages of Postgres, raises no other alert',
  () => {
    // On Sundays Postgres is away for 20 minutes, on Wednesdays the replicas are replaced in turn, on Fridays the machine
    // of both starts anew.
    const outages = DAYS.filter((n) => n % 7 === 0).map((n) => [n * DAY + 300, n * DAY + 320] as const)
    const restarts = DAYS.filter((n) => n % 7 === 5).map((n) => [n * DAY + 600, n * DAY + 603] as const)
    const deployments = DAYS.filter((n) => n % 7 === 3).map((n) => n * DAY + 700)
    const series: Record<string, string> = {}
    for (const [index, instance] of ['a', 'b'].entries()) {
      const gone = [...restarts, ...deployments.map((at) => [at + index, at + index + 1] as const)]
      const fill = (ranges: readonly (readonly [number, number])[], value: string) =>
        ranges.map(([from, to]) => [from, to, value] as const)
      const add = (name: string, labels: string, usual: string, spans: readonly Span[]) => {
        series[`${name}{instance="${instance}",${labels}}`] = toSamples(usual, spans)
      }
      /** A metric that is read from the database. */
      const stored = (name: string, labels: string, usual: string, spans: readonly Span[] = []) =>
        add(name, labels, usual, [...spans, ...fill([...gone, ...outages], '_')])
      add('up', 'job="fillrate"', '1', fill(gone, '0'))
      add('fillrate_database_up', '', '1', [...fill(outages, '0'), ...fill(gone, '_')])
      for (const kind of CONDITION_KINDS)
        stored(
          'fillrate_condition',
          `kind="${kind}",service="",source="",severity="${severityOf({ kind, details: {} })}"`,
          '0',
        )
      const spent = DAYS.map((n) => [n * DAY + 120, n * DAY + DAY, String(40 + (n % 7))] as const)
      stored('fillrate_money_spent_today', 'service="acme",currency="EUR"', '0', spent)
      stored('fillrate_oldest_unsettled_delivery_seconds', '', '0')
      stored('fillrate_live_sync_oldest_seconds', 'source="people"', '2')
      stored('fillrate_source_paused', 'source="people"', '0')
      // Refused, throttled and failed long ago.
      for (const status of ['401', '429', '503', 'none'])
        add('fillrate_requests_total', `service="acme",endpoint="person",status="${status}"`, '9', [
          // A process begins at 0.
          [Math.min(...gone.map(([, to]) => to)), DAYS.length * DAY, '0'],
          ...fill(gone, '_'),
        ])
      const calls = DAYS.flatMap((n) =>
        Array.from({ length: 20 }, (_, k) => {
          const to = k === 19 ? (n + 1) * DAY + 120 : n * DAY + 130 + k * 10
          return [n * DAY + 120 + k * 10, to, String(1_000 * n + 50 * k)] as const
        }),
      )
      add('fillrate_requests_total', 'service="acme",endpoint="person",status="200"', '0', [
        ...calls,
        ...fill(gone, '_'),
      ])
      const ends = DAYS.map(
        (n) => [n * DAY + 150, (n + 1) * DAY + 150, String((n * DAY + 150) * 60)] as const,
      )
      const lastEnd = 'fillrate_last_run_end_timestamp_seconds'
      stored(lastEnd, 'trigger="schedule",status="completed"', '0', ends)
      // The colleague at the terminal whose run failed knows it.
      stored(lastEnd, 'trigger="manual",status="failed"', '_', [[7_200, 30 * DAY, '432000']])
    }
    const firing = {
      expr: 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[30d]))',
      eval_time: '30d',
      exp_samples: [{ labels: '{alertname="FillrateDatabaseAway"}', value: 1 }],
    }
    expect(evaluateRules(series, { promql_expr_test: [firing] }, '2m')).toContain('SUCCESS')
  },
)
