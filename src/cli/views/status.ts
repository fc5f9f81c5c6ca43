import type {
  BudgetReport,
  DeletedRowsStatus,
  MeasuredFillCounts,
  RateReport,
  SlowedWrites,
  SpendReport,
  StatusReport,
} from '../../domain/report/status.ts'
import { CHANGE_LIMIT, formatLimit, formatOverstated } from '../../domain/rate-status.ts'
import { FAILURE_STATES, RETIRED_ADVICE, formatState } from '../../domain/row.ts'
import {
  foldNames,
  filledShare,
  formatCount,
  formatPercent,
  formatTime,
  pluralize,
  relativeTime,
} from '../../util/text.ts'
import { Run } from '../../domain/run.ts'
import { runOutcome } from '../../domain/stored-run.ts'
import { BUDGET_NAMES, formatSpend } from '../../domain/spend.ts'
import { wrapText, type Output } from '../terminal.ts'
import { formatSum, placeBeside, renderFields, renderText, type Field } from './layout.ts'
import { renderTable } from './table.ts'
import { renderRowStates } from './report.ts'

/** The status: rows by state and fill rates of each source; then runs, jobs, deliveries and the rate limit. */
export function renderStatus(report: StatusReport, output: Output, now: number): string[] {
  const { conditions, limits, fill_rate, rows } = report
  const names = Object.keys({ ...fill_rate, ...rows })
  return [
    ...conditions.flatMap((condition) => [...renderCondition(condition, output, now), '']),
    ...(names.length > MAX_FULL_SOURCES
      ? [...renderSourceTable(names, report, output), '']
      : names.flatMap((name) => [...renderSource(name, report, output, now), ''])),
    ...[
      ...report.slowed_writes.map(toSlowedField),
      ...report.deleted.map((deleted) => toDeletedField(deleted, now)),
    ].flatMap((field) => [...renderFields(output, [field]), '']),
    ...(names.length === 0 ? ['No row was picked yet.', ''] : []),
    ...renderFields(output, [
      ...retiredFields(report.retired),
      ...workFields(report, now),
      ...spendFields(report.spend),
      ...limits
        .slice(0, 3)
        .flatMap((limit) => [limitField(limit, now), ...rateStatusFields(limit.status, now)]),
    ]),
    ...(report.schedule.length === 0 ? [] : ['', ...renderSchedule(report, now, output)]),
  ]
}

/** With more sources than this, each has a line alone. */
const MAX_FULL_SOURCES = 8

const countFailed = (rows: StatusReport['rows'][string] | undefined): number =>
  FAILURE_STATES.reduce((sum, state) => sum + (rows?.[state] ?? 0), 0)

/** Why runs do not pick from a source; null: they do. */
function findHold({ conditions, paused }: StatusReport, name: string): 'left out' | 'paused' | null {
  if (conditions.some(({ kind, source }) => kind === 'source_broken' && source === name)) return 'left out'
  return paused.some(({ source }) => source === name) ? 'paused' : null
}

const renderSourceTable = (names: readonly string[], report: StatusReport, output: Output): string[] =>
  renderTable(output, names, [
    { title: 'source', text: (name) => name, minColumns: 8 },
    { title: 'picked', text: (name) => formatCount(report.rows[name]?.total ?? 0), number: true },
    { title: 'waiting', text: (name) => formatCount(report.rows[name]?.waiting ?? 0), number: true },
    { title: 'not enriched', text: (name) => formatCount(countFailed(report.rows[name])), number: true },
    { title: 'filled', text: (name) => formatFilled(report.fill_rate[name]), number: true },
    { title: '', text: (name) => findHold(report, name) ?? '' },
  ])

/** The share of all cells that hold a value. */
function formatFilled(fillRate: StatusReport['fill_rate'][string] | undefined): string {
  if (fillRate === undefined || typeof fillRate === 'string') return ''
  const filled = fillRate.columns.map((column) => column.filled)
  const share = filledShare(fillRate.eligible, filled)
  return share === null ? '' : formatPercent(share)
}

/** What is wrong, since when, what it means, and what to do. */
function renderCondition(
  { severity, title, meaning, mend, proof, since }: StatusReport['conditions'][number],
  output: Output,
  now: number,
): string[] {
  const { paint, textColumns } = output
  const [sign, style] = severity === 'error' ? (['✗', 'bad'] as const) : (['!', 'warn'] as const)
  const head = `${title}, since ${formatTime(since)} (${relativeTime(since, now)})`
  return [
    ...placeBeside(`${sign} `, wrapText(head, textColumns - 2)).map((line) => paint(style, line)),
    ...renderText(output, meaning),
    ...renderText(output, `${mend} Prove it: ${proof}.`, 'quiet'),
  ]
}

function renderSource(name: string, report: StatusReport, output: Output, now: number): string[] {
  const { paint } = output
  const [rows, fillRate] = [report.rows[name], report.fill_rate[name]]
  const pause = report.paused.find(({ source }) => source === name) ?? null
  const hold = findHold(report, name) === 'left out' ? 'left out' : formatPause(pause, now)
  const lines = [`${paint('heading', name)}${hold === null ? '' : `  ${paint('warn', hold)}`}`]
  if (rows === undefined || rows.total === 0) lines.push(`  ${paint('quiet', 'no row was picked yet')}`)
  else lines.push(...renderRowStates({ ...rows, picked: rows.total }, output, 'ever picked'))
  if (typeof fillRate === 'string') lines.push('', ...renderFields(output, [['fill rate', fillRate]]))
  else if (fillRate !== undefined) lines.push('', ...renderFillRates(fillRate, output, now))
  return lines
}

const toSlowedField = ({ source, per_hour: perHour }: SlowedWrites): Field => [
  'Writes',
  `${source}: answered rows wait to be written, ${formatCount(perHour)} an hour`,
  'as `writes` of the source allows; lookups go on',
]

function toDeletedField({ source, rows, is_kept, since, held }: DeletedRowsStatus, now: number): Field {
  const fate = is_kept ? 'kept for explain and undo' : 'erased an hour after that'
  return [
    'Deleted',
    `${pluralize(rows, 'row')} of ${source} ${rows === 1 ? 'is' : 'are'} no longer in the table, since ${relativeTime(since, now)}`,
    held ?? fate,
  ]
}

/** Sources that left the configuration, and what to do about them. */
function retiredFields(retired: StatusReport['retired']): Field[] {
  if (retired.length === 0) return []
  const named = retired.map(({ source, rows, deleted }) => `${source} (${pluralize(rows + deleted, 'row')})`)
  return [['Retired', foldNames(named), RETIRED_ADVICE]]
}

const formatPause = (pause: StatusReport['paused'][number] | null, now: number): string | null =>
  pause === null
    ? null
    : `paused ${relativeTime(pause.paused_at, now)} by ${pause.paused_by}${pause.reason === null ? '' : ` (${pause.reason})`}`

/** The share of a source's rows that hold a value, by column. */
const renderFillRates = (
  { eligible, columns, measured_at: measuredAt }: MeasuredFillCounts,
  output: Output,
  now: number,
): string[] => [
  `  ${output.paint('quiet', `fill rate of ${pluralize(eligible, 'row')}, counted ${relativeTime(measuredAt, now)}`)}`,
  ...renderTable(
    output,
    columns,
    [
      { title: 'column', text: ({ column }) => column, minColumns: 8 },
      { title: 'filled', text: ({ filled }) => formatCount(filled), number: true },
      {
        title: 'share',
        text: ({ filled }) => formatPercent(eligible === 0 ? 0 : filled / eligible),
        number: true,
      },
    ],
    { indent: 2 },
  ),
]

function workFields(
  { jobs, deliveries, quarantined_results: quarantined, running_runs: live, last_run: last }: StatusReport,
  now: number,
): Field[] {
  const ended =
    last === null
      ? 'none yet'
      : `run ${last.id}, ${formatState(runOutcome(last))}, started ${relativeTime(last.started_at, now)}`
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

/** What was spent, and what is left of each budget. */
function spendFields({ today, last_30_days: month, budgets, services = [] }: SpendReport): Field[] {
  return [
    ['Spend', `${formatSpend(today)} today, ${formatSpend(month)} in 30 days`],
    ...services.map((entry, n): Field => [
      n === 0 ? 'By service' : '',
      `${entry.service}: ${formatSpend(entry.last_30_days)} in 30 days`,
    ]),
    ...budgets
      .filter(({ limit }) => limit !== null)
      .map((budget, n): Field => [
        n === 0 ? 'Budgets' : '',
        `${describeBudget(budget)}: ${formatCount(budget.left ?? 0)} of ${pluralize(budget.limit ?? 0, budget.unit ?? 'lookup')} left`,
        budget.left === 0 ? 'used up' : '',
      ]),
  ]
}

const describeBudget = ({ kind, run }: BudgetReport): string =>
  `${BUDGET_NAMES[kind]}${run === null ? '' : ` ${run}`}`

/** `31 = 28 completed + 3 failed`. */
function formatStates(states: Readonly<Record<string, number>>): string {
  const words = Object.fromEntries(Object.keys(states).map((state) => [state, formatState(state)]))
  return formatSum(states, words) ?? 'none'
}

function limitField(
  { service, limit, window_ms: windowMs, observed_at: observedAt }: StatusReport['limits'][number],
  now: number,
): Field {
  return ['Limit', `${formatLimit(limit, windowMs)}, observed ${relativeTime(observedAt, now)}`, service]
}

/** The rate limit as the leader last reported it: utilisation, and why calls are stalled. A ban or another client is a condition. */
function rateStatusFields(status: RateReport | null, now: number): Field[] {
  if (status === null) return []
  return [
    utilisationField(status, now),
    status.live && status.stall_reason !== null && ['Waiting', status.stall_reason],
    overstatedField(status),
    status.beside && [
      'Beside it',
      formatLimit(status.beside.limit, status.beside.window_ms),
      'learnt from refusals',
    ],
  ]
}

function overstatedField({ overstated }: RateReport): Field {
  if (overstated === null) return null
  return ['Too high', formatOverstated(overstated.limit, overstated.window_ms, overstated), CHANGE_LIMIT]
}

function utilisationField(status: RateReport, now: number): Field {
  const { utilisation, used, permitted } = status
  if (utilisation === null || permitted === null) return null
  const when = status.live ? 'so far' : relativeTime(status.reported_at, now)
  const of = `${formatCount(used)} of the ${formatCount(permitted)} permitted calls`
  return ['Used', `${formatPercent(utilisation)} of the limit, ${when}`, of]
}

/** The next time of each entry of the schedule. */
const renderSchedule = (
  { schedule }: StatusReport,
  now: number,
  { paint }: Pick<Output, 'paint'>,
): string[] =>
  schedule.flatMap(({ cron, timezone, sources, budget, next }) => {
    const details = [timezone, `runs ${sources.join(', ')}`, ...(budget === null ? [] : [`budget ${budget}`])]
    // `2026-03-29 03:00:00 CEST`, in the time zone of the schedule.
    const local = new Intl.DateTimeFormat('sv-SE', {
      timeZone: timezone,
      dateStyle: 'short',
      timeStyle: 'long',
    })
    return [
      `${paint('heading', cron)}  ${paint('quiet', details.join(', '))}`,
      ...next
        .map((iso) => new Date(iso))
        .map((at) => `  ${local.format(at)}  ${paint('quiet', relativeTime(at, now))}`),
    ]
  })
