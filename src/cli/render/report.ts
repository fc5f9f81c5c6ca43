import type { RunReport } from '../../runs/report.ts'
import type { Output } from '../output.ts'
import { dryRunLines } from './diff.ts'
import { limitText } from './limit.ts'
import { formatCount, pluralize, formatDuration, formatPercent } from '../../util/format.ts'
import type { Style } from './paint.ts'
import { nextSteps } from './next-steps.ts'
import { fields, type Field } from './fields.ts'
import { BANNED, FOREIGN } from './rate-told.ts'
import { rowLines } from './row-lines.ts'
import { sum } from './sum.ts'
import { wrap } from './text.ts'

interface Ending {
  readonly words: string
  readonly style: Style
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
export function reportLines(report: RunReport, output: Output): string[] {
  const { paint, textColumns } = output
  const { words, style, time, more } = ENDINGS[report.status]
  const reason = REASON_SHOWN.has(report.status) ? report.reason : null
  const name = report.dry_run ? 'Dry run' : 'Run'
  return [
    `${paint('heading', `${name} ${report.run}`)} ${paint(style, words)} ${time} ${formatDuration(report.duration_ms)}${more}`,
    ...[reason, report.dry_run ? DRY : null].flatMap((text) =>
      text === null ? [] : wrap(text, textColumns - 2).map((line) => `  ${line}`),
    ),
    '',
    ...(report.rows.picked === 0 ? [nothingPicked(report)] : details(report, output)),
    ...nextSteps(report, output),
  ]
}

const details = (report: RunReport, output: Output): string[] => [
  ...rowLines(report.rows, output),
  '',
  ...fields([...asked(report), ...written(report), ...rate(report)], output),
  ...after(report.dry_run ? dryRunLines(report.dry_run, output) : []),
]

const after = (lines: readonly string[]): string[] => (lines.length > 0 ? ['', ...lines] : [])

const nothingPicked = (report: RunReport): string =>
  report.skipped_over_budget > 0 || report.status !== 'completed'
    ? '  No row was picked.'
    : '  Nothing to do: no row lacks anything that was not asked for already.'

function asked(report: RunReport): Field[] {
  const { lookups, requests, jobs } = report
  const calls = requests.person + requests.company + requests.bulk
  const open = lookups.distinct - lookups.stored - lookups.requested
  const list: Field[] = [
    [
      'Lookups',
      `${formatCount(lookups.distinct)} distinct = ${formatCount(lookups.stored)} answered before + ${formatCount(lookups.requested)} asked` +
        (open > 0 ? ` + ${formatCount(open)} to ask` : ''),
      sum(lookups, { found: 'found', not_found: 'not found', rejected: 'rejected', failed: 'failed' }),
    ],
  ]
  if (calls > 0)
    list.push([
      'Calls',
      `${formatCount(calls)} = ${sum(requests, { person: 'for a person', company: 'for a company', bulk: 'with a job' }, ' + ')}`,
      sum(requests, { retried: 'to be tried again', throttled: 'answered 429' }),
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
  if (all > 0) list.push(['Jobs', `${formatCount(all)} = ${sum(jobs, words, ' + ')}`])
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
  const why = sum(
    saved,
    { shared: 'rows shared a lookup', stored: 'were answered before', bulk: 'went in jobs' },
    ' + ',
  )
  return `${pluralize(all, 'call')}: ${why}`
}

function written({ cells, dry_run: dryRun }: RunReport): Field[] {
  const more = sum(cells, { protected: 'protected', skipped: 'skipped' })
  return [['Cells', `${formatCount(cells.written)} ${dryRun ? 'would be ' : ''}written`, more]]
}

function rate({ rate }: RunReport): Field[] {
  if (rate.limit === null) return []
  const limit = limitText(rate.limit, rate.window_ms, rate.window_at_most_ms)
  const shared: Field[] = [
    ...(rate.banned ? [['Banned', BANNED, 'the next run tries again with one call'] satisfies Field] : []),
    ...(rate.shared_key ? [['Shared', FOREIGN, 'give each client a key of its own'] satisfies Field] : []),
  ]
  if (rate.utilisation === null || rate.permitted === null) return [['Limit', limit], ...shared]
  const of = `${formatCount(rate.used)} of the ${formatCount(rate.permitted)} calls permitted meanwhile`
  return [['Limit', `${limit}, ${formatPercent(rate.utilisation)} used`, of], ...shared]
}
