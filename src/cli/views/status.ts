import type { MeasuredFillCounts, StatusReport } from '../../actions/status.ts'
import { Run } from '../../domain/run.ts'
import { type Output, padText, textWidth, truncate } from '../terminal.ts'
import { type LabeledText, formatCounts, formatState, renderBar, renderFields } from './layout.ts'
import { formatLimit, rateStatusFields } from './rate-status.ts'
import { formatCount, formatPercent, pluralize, relativeTime } from '../../util/format.ts'
import { renderRowStates } from './report.ts'

/** The status: rows by state and fill rates of each source; then runs, jobs, deliveries and the rate limit. */
export function renderStatus(report: StatusReport, output: Output, now: number): string[] {
  const { limits, fill_rate, rows, paused } = report
  const names = Object.keys({ ...fill_rate, ...rows })
  const pauseOf = (name: string) => paused.find((one) => one.source === name) ?? null
  return [
    ...names.flatMap((name) => [
      ...renderSource(name, rows[name], fill_rate[name], formatPause(pauseOf(name), now), output, now),
      '',
    ]),
    ...(names.length === 0 ? ['No row was picked yet.', ''] : []),
    ...renderFields(
      [
        ...workFields(report, now),
        ...limits
          .slice(0, 3)
          .flatMap((limit) => [limitField(limit, now), ...rateStatusFields(limit.status, now)]),
      ],
      output,
    ),
  ]
}

function renderSource(
  name: string,
  rows: StatusReport['rows'][string] | undefined,
  fillRate: StatusReport['fill_rate'][string] | undefined,
  paused: string | null,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  const lines = [`${paint('heading', name)}${paused === null ? '' : `  ${paint('warn', paused)}`}`]
  if (rows === undefined || rows.total === 0) lines.push(`  ${paint('quiet', 'no row was picked yet')}`)
  else lines.push(...renderRowStates({ ...rows, picked: rows.total }, output, 'ever picked'))
  if (typeof fillRate === 'string') lines.push('', ...renderFields([['fill rate', fillRate]], output))
  else if (fillRate !== undefined) lines.push('', ...renderFillRates(fillRate, output, now))
  return lines
}

const formatPause = (pause: StatusReport['paused'][number] | null, now: number): string | null =>
  pause === null ? null : `paused ${relativeTime(pause.paused_at, now)}`

const MAX_NAME_COLUMNS = 32

/** The share of a source's rows that hold a value, by column. */
function renderFillRates(
  { eligible, columns, measured_at: measuredAt }: MeasuredFillCounts,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  const names = Math.min(MAX_NAME_COLUMNS, Math.max(...columns.map(({ column }) => textWidth(column)), 8))
  const numbers = formatCount(eligible).length
  const room = output.textColumns - names - numbers - 15
  return [
    `  ${paint('quiet', `fill rate of ${pluralize(eligible, 'row')}, counted ${relativeTime(measuredAt, now)}`)}`,
    ...columns.map(({ column, filled }) => {
      const share = eligible === 0 ? 0 : filled / eligible
      const shown = room < 8 ? '' : `  ${renderBar(share, Math.min(30, room), paint)}`
      return `  ${padText(truncate(column, names), names)}  ${formatCount(filled).padStart(numbers)}  ${formatPercent(share).padStart(6)}${shown}`
    }),
  ]
}

function workFields(
  { jobs, deliveries, quarantined_results: quarantined, running_runs: live, last_run: last }: StatusReport,
  now: number,
): LabeledText[] {
  const ended =
    last === null
      ? 'none yet'
      : `run ${last.id}, ${last.state}, started ${relativeTime(last.started_at, now)}`
  return [
    [
      'Runs',
      live > 0 ? `${formatCount(live)} in progress` : ended,
      live > 0
        ? last?.state === Run.running
          ? `the latest is run ${last.id}`
          : `the latest, ${ended}`
        : (last?.reason ?? ''),
    ],
    ['Jobs', formatStates(jobs)],
    [
      'Deliveries',
      formatStates(deliveries),
      quarantined > 0 ? `${pluralize(quarantined, 'result')} matched no input and were not used` : '',
    ],
  ]
}

/** `31 = 28 completed + 3 failed`. */
function formatStates(states: Readonly<Partial<Record<string, number>>>): string {
  const numbers = Object.fromEntries(Object.entries(states).map(([state, n]) => [state, n ?? 0]))
  const all = Object.values(numbers).reduce((total, n) => total + n, 0)
  if (all === 0) return 'none'
  return `${formatCount(all)} = ${formatCounts(numbers, Object.fromEntries(Object.keys(numbers).map((state) => [state, formatState(state)])), ' + ')}`
}

function limitField(
  { scope, limit, window_ms: windowMs, observed_at: observedAt, status }: StatusReport['limits'][number],
  now: number,
): LabeledText {
  const [host = scope, key] = scope.split(' ')
  const whose = key === undefined ? host : `${host}, key ${key}`
  const known = formatLimit(limit, windowMs, status?.window_at_most_ms)
  return ['Limit', `${known}, observed ${relativeTime(observedAt, now)}`, whose]
}
