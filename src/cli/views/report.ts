import type { RunReport } from '../../runs/report.ts'
import { type Output, type TextStyle, padText, wrapText } from '../terminal.ts'
import { renderDryRun } from './diff.ts'
import { BANNED_NOTICE, SHARED_KEY_NOTICE, formatLimit } from './rate-status.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../util/format.ts'
import {
  type LabeledText,
  formatCounts,
  formatState,
  renderBlocks,
  renderFields,
  renderSuggestions,
  stateStyle,
  type SuggestedCommand,
} from './layout.ts'
import { FAILED_ROW_STATES, ROW_STATES, type RowState } from '../../domain/row.ts'

interface Ending {
  readonly words: string
  readonly style: TextStyle
  /** Between the words and how long it took. */
  readonly time: 'in' | 'after'
  readonly more: string
}

const ENDINGS: Readonly<Record<RunReport['status'], Ending>> = {
  completed: { words: 'completed', style: 'good', time: 'in', more: '' },
  budget_reached: { words: 'stopped at its budget', style: 'warn', time: 'after', more: '' },
  interrupted: { words: 'interrupted', style: 'warn', time: 'after', more: ', its state is saved' },
  unauthorized: {
    words: 'stopped',
    style: 'bad',
    time: 'after',
    more: ', because the service refuses its calls',
  },
  failed: { words: 'failed', style: 'bad', time: 'after', more: '' },
}

const DRY = 'Nothing was written to your tables. What a run would have made of the rows:'

/** The reason of one that could not go on is an error, and stands on standard error. */
const REASON_SHOWN: ReadonlySet<RunReport['status']> = new Set(['completed', 'budget_reached'])

/** What a run did: rows by state that add up to those picked, what it asked and saved, and what to type next. */
export function renderReport(report: RunReport, output: Output): string[] {
  const { paint, textColumns } = output
  const { words, style, time, more } = ENDINGS[report.status]
  const reason = REASON_SHOWN.has(report.status) ? report.reason : null
  const name = report.dry_run ? 'Dry run' : 'Run'
  return [
    `${paint('heading', `${name} ${report.run}`)} ${paint(style, words)} ${time} ${formatDuration(report.duration_ms)}${more}`,
    ...[reason, report.dry_run ? DRY : null].flatMap((text) =>
      text === null ? [] : wrapText(text, textColumns - 2).map((line) => `  ${line}`),
    ),
    '',
    ...(report.rows.picked === 0 ? [nothingPicked(report)] : details(report, output)),
    ...renderSuggestions(suggestAfterRun(report), output),
  ]
}

const details = (report: RunReport, output: Output): string[] => [
  ...renderRowStates(report.rows, output),
  '',
  ...renderFields([...asked(report), ...written(report), ...rate(report)], output),
  ...after(report.dry_run ? renderDryRun(report.dry_run, output) : []),
]

const after = (lines: readonly string[]): string[] => (lines.length > 0 ? ['', ...lines] : [])

const nothingPicked = (report: RunReport): string =>
  report.skipped_over_budget > 0 || report.status !== 'completed'
    ? '  No row was picked.'
    : '  Nothing to do: no row lacks anything that was not asked for already.'

function asked(report: RunReport): LabeledText[] {
  const { lookups, requests, jobs } = report
  const calls = requests.person + requests.company + requests.bulk
  const open = lookups.distinct - lookups.stored - lookups.requested
  const list: LabeledText[] = [
    [
      'Lookups',
      `${formatCount(lookups.distinct)} distinct = ${formatCount(lookups.stored)} answered before + ${formatCount(lookups.requested)} asked` +
        (open > 0 ? ` + ${formatCount(open)} to ask` : ''),
      formatCounts(lookups, {
        found: 'found',
        not_found: 'not found',
        rejected: 'rejected',
        failed: 'failed',
      }),
    ],
  ]
  if (calls > 0)
    list.push([
      'Calls',
      `${formatCount(calls)} = ${formatCounts(requests, { person: 'for a person', company: 'for a company', bulk: 'with a job' }, ' + ')}`,
      formatCounts(requests, { retried: 'to be tried again', throttled: 'answered 429' }),
    ])
  list.push(['Saved', savedCalls(report)])
  if (lookups.in_doubt > 0)
    list.push([
      'In doubt',
      `${pluralize(lookups.in_doubt, 'request')} without an answer: the service may have billed ${lookups.in_doubt === 1 ? 'it' : 'them'}`,
    ])
  const all = jobs.completed + jobs.failed + jobs.expired + jobs.in_doubt + jobs.waiting
  const words = {
    completed: 'completed',
    failed: 'failed',
    expired: 'expired',
    in_doubt: 'in doubt',
    waiting: 'waiting',
  }
  if (all > 0) list.push(['Jobs', `${formatCount(all)} = ${formatCounts(jobs, words, ' + ')}`])
  return list
}

/** Calls that were not made, and why not. */
function savedCalls({ rows, lookups, requests }: RunReport): string {
  const questions = rows.picked - rows.invalid_input - rows.suppressed
  const first = requests.person + requests.company + requests.bulk - requests.retried - requests.throttled
  const saved = {
    shared: Math.max(0, questions - lookups.distinct),
    stored: lookups.stored,
    bulk: requests.bulk > 0 ? Math.max(0, lookups.requested - first) : 0,
  }
  const all = saved.shared + saved.stored + saved.bulk
  if (all === 0) return 'no calls'
  const why = formatCounts(
    saved,
    { shared: 'rows shared a lookup', stored: 'were answered before', bulk: 'went in jobs' },
    ' + ',
  )
  return `${pluralize(all, 'call')}: ${why}`
}

function written({ cells, dry_run: dryRun }: RunReport): LabeledText[] {
  const more = formatCounts(cells, { protected: 'protected', skipped: 'skipped' })
  return [['Cells', `${formatCount(cells.written)} ${dryRun ? 'would be ' : ''}written`, more]]
}

function rate({ rate }: RunReport): LabeledText[] {
  if (rate.limit === null) return []
  const limit = formatLimit(rate.limit, rate.window_ms, rate.window_at_most_ms)
  const shared: LabeledText[] = [
    ...(rate.banned
      ? [['Banned', BANNED_NOTICE, 'the next run tries again with one call'] satisfies LabeledText]
      : []),
    ...(rate.shared_key
      ? [['Shared', SHARED_KEY_NOTICE, 'give each client a key of its own'] satisfies LabeledText]
      : []),
  ]
  if (rate.utilisation === null || rate.permitted === null) return [['Limit', limit], ...shared]
  const of = `${formatCount(rate.used)} of the ${formatCount(rate.permitted)} calls permitted meanwhile`
  return [['Limit', `${limit}, ${formatPercent(rate.utilisation)} used`, of], ...shared]
}

/** What is still open comes last, before the sum. */
const ORDER = [...ROW_STATES.filter((state) => state !== 'waiting'), 'waiting'] as const

/** A sum, written as one. States without a row are left out. */
export function renderRowStates(
  rows: { readonly picked: number } & Readonly<Record<RowState, number>>,
  output: Output,
  total = 'picked',
): string[] {
  const { paint } = output
  if (rows.picked === 0) return [`  ${paint('quiet', 'no rows')}`]
  const states = ORDER.filter((state) => rows[state] > 0)
  const names = Math.max(total.length, ...states.map((state) => state.length)) + 2
  const numbers = formatCount(rows.picked).length
  const barColumns = Math.min(50, output.textColumns - names - numbers - 12)
  return [
    ...states.map((state) => {
      const share = rows[state] / rows.picked
      const name = padText(formatState(state), names)
      const style = stateStyle(state)
      const bar = barColumns < 8 ? '' : `  ${paint('bar', renderBlocks(share, barColumns))}`
      const shares = paint('quiet', formatPercent(share).padStart(6))
      return `  ${style === null ? name : paint(style, name)}${formatCount(rows[state]).padStart(numbers)}  ${shares}${bar}`
    }),
    `  ${paint('quiet', '─'.repeat(names + numbers))}`,
    `  ${paint('heading', padText(total, names) + formatCount(rows.picked).padStart(numbers))}`,
  ]
}

/** Pure. */
export function suggestAfterRun(
  report: Pick<RunReport, 'status' | 'rows' | 'cells' | 'jobs' | 'skipped_over_budget' | 'dry_run'>,
): SuggestedCommand[] {
  const { rows, cells, jobs, status, skipped_over_budget: leftOut } = report
  const steps: SuggestedCommand[] = []
  const failed = FAILED_ROW_STATES.reduce((sum, state) => sum + rows[state], 0)
  const why = [
    ...(failed > 0 ? [`${pluralize(failed, 'row')} failed`] : []),
    ...(cells.skipped > 0 ? [`${pluralize(cells.skipped, 'cell')} did not fit`] : []),
  ]
  if (why.length > 0 && !report.dry_run) steps.push(['fillrate failures', `why ${why.join(' and ')}`])
  if (status === 'failed' || status === 'unauthorized')
    steps.push(['fillrate check', 'what is wrong, and what to do about it'])
  if (status === 'budget_reached' || leftOut > 0) {
    const rest =
      leftOut > 0 ? `${pluralize(leftOut, 'row')} would cost more than the budget` : 'the budget is used up'
    steps.push(['fillrate plan', `${rest}; this tells what the rest would cost`])
  }
  if (report.dry_run && rows.enriched > 0)
    steps.push(['fillrate run', 'writes what is shown, out of the stored records: they are not asked again'])
  if (rows.waiting > 0) {
    const open = jobs.waiting + jobs.in_doubt
    if (open > 0) steps.push(['fillrate jobs', `${pluralize(open, 'job')} without a delivery yet`])
    steps.push([
      'fillrate run',
      `carries on with ${pluralize(rows.waiting, 'row')} that ${rows.waiting === 1 ? 'waits' : 'wait'}, and asks nothing twice`,
    ])
  }
  return steps
}
