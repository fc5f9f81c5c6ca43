import { FAILED_ROW_STATES, ROW_STATES, type RowState } from '../../domain/row.ts'
import type { RunReport } from '../../pipeline/run/report.ts'
import type { Output } from '../output.ts'
import { blocks } from './bar.ts'
import { limitText } from './limit.ts'
import { count, counted, duration, percent } from './numbers.ts'
import type { Style } from './paint.ts'
import { nextSteps } from './next-steps.ts'
import { fields, type Field } from './fields.ts'
import { sum } from './sum.ts'
import { pad, wrap } from './text.ts'

/** How a run ended, in words, and how that is meant. */
const ENDINGS: Readonly<Record<RunReport['status'], readonly [words: string, style: Style]>> = {
  completed: ['completed', 'good'],
  budget_reached: ['stopped at its budget', 'warn'],
  interrupted: ['interrupted, its state is saved', 'warn'],
  refused: ['stopped, because the service refuses its calls', 'bad'],
  failed: ['failed', 'bad'],
}

/** What a run did: rows by state that add up to those picked, what it asked and saved, and what to type next. */
export function reportLines(report: RunReport, output: Output): string[] {
  const { paint, textColumns } = output
  const [ending, style] = ENDINGS[report.status]
  const took = `in ${duration(report.duration_ms)}`
  return [
    `${paint('heading', `Run ${report.run}`)} ${paint(style, ending)} ${took}`,
    ...(report.reason === null ? [] : wrap(report.reason, textColumns - 2).map((line) => `  ${line}`)),
    '',
    ...rowLines(report.rows, output),
    '',
    ...fields([...asked(report), ...written(report), ...rate(report)], output),
    ...nextSteps(report, output),
  ]
}

/** A state as a person reads it. */
export const stateWords = (state: string): string => state.replaceAll('_', ' ')

export function stateStyle(state: RowState): Style | null {
  if (state === 'enriched') return 'good'
  if (state === 'waiting') return 'warn'
  return (FAILED_ROW_STATES as readonly RowState[]).includes(state) ? 'bad' : null
}

/** What is still open comes last, before the sum. */
const ORDER = [...ROW_STATES.filter((state) => state !== 'waiting'), 'waiting'] as const

/** A sum, written as one. States without a row are left out. */
export function rowLines(
  rows: { readonly picked: number } & Readonly<Record<RowState, number>>,
  output: Output,
  total = 'picked',
): string[] {
  const { paint } = output
  if (rows.picked === 0) return [`  ${paint('quiet', 'no rows')}`]
  const states = ORDER.filter((state) => rows[state] > 0)
  const names = Math.max(total.length, ...states.map((state) => state.length)) + 2
  const numbers = count(rows.picked).length
  const most = Math.max(...states.map((state) => rows[state]))
  const barColumns = Math.min(40, output.textColumns - names - numbers - 14)
  return [
    ...states.map((state) => {
      const share = rows[state] / rows.picked
      const name = pad(stateWords(state), names)
      const style = stateStyle(state)
      const bar = barColumns < 8 ? '' : `  ${paint('bar', blocks(rows[state] / most, barColumns))}`
      const shares = paint('quiet', percent(share).padStart(6))
      return `  ${style === null ? name : paint(style, name)}${count(rows[state]).padStart(numbers)}  ${shares}${bar}`
    }),
    `  ${paint('quiet', '─'.repeat(names + numbers))}`,
    `  ${paint('heading', pad(total, names) + count(rows.picked).padStart(numbers))}`,
  ]
}

function asked(report: RunReport): Field[] {
  const { lookups, requests, jobs } = report
  const calls = requests.person + requests.company + requests.bulk
  const list: Field[] = [
    [
      'Lookups',
      `${count(lookups.distinct)} distinct = ${count(lookups.stored)} answered before + ${count(lookups.asked)} asked`,
      sum(lookups, { found: 'found', not_found: 'not found', refused: 'refused', failed: 'failed' }),
    ],
  ]
  if (calls > 0)
    list.push([
      'Calls',
      `${count(calls)} = ${sum(requests, { person: 'for a person', company: 'for a company', bulk: 'with a job' }, ' + ')}`,
      sum(requests, { retried: 'to be tried again', throttled: 'answered 429' }),
    ])
  list.push(['Saved', savedCalls(report)])
  if (lookups.in_doubt > 0)
    list.push([
      'In doubt',
      `${counted(lookups.in_doubt, 'call')} whose answer was lost with the process that made ${lookups.in_doubt === 1 ? 'it' : 'them'}`,
    ])
  const all = jobs.completed + jobs.failed + jobs.expired + jobs.in_doubt + jobs.waiting
  const words = {
    completed: 'completed',
    failed: 'failed',
    expired: 'expired',
    in_doubt: 'in doubt',
    waiting: 'waiting',
  }
  if (all > 0) list.push(['Jobs', `${count(all)} = ${sum(jobs, words, ' + ')}`])
  return list
}

/** Calls that were not made, and why not. */
function savedCalls({ rows, lookups, requests }: RunReport): string {
  const questions = rows.picked - rows.invalid_input - rows.suppressed
  const first = requests.person + requests.company + requests.bulk - requests.retried - requests.throttled
  const saved = {
    shared: Math.max(0, questions - lookups.distinct),
    stored: lookups.stored,
    bulk: requests.bulk > 0 ? Math.max(0, lookups.asked - first) : 0,
  }
  const all = saved.shared + saved.stored + saved.bulk
  if (all === 0) return 'no calls'
  const why = sum(
    saved,
    { shared: 'rows shared a lookup', stored: 'were answered before', bulk: 'went in jobs' },
    ' + ',
  )
  return `${counted(all, 'call')}: ${why}`
}

function written({ cells }: RunReport): Field[] {
  const more = sum(cells, { kept: 'kept as they were', conflicts: 'did not fit' })
  return [['Cells', `${count(cells.written)} written`, more]]
}

function rate({ rate }: RunReport): Field[] {
  if (rate.limit === null) return []
  const limit = limitText(rate.limit, rate.window_ms)
  if (rate.utilisation === null || rate.permitted === null) return [['Limit', limit]]
  const of = `${count(rate.used)} of the ${count(rate.permitted)} calls permitted meanwhile`
  return [['Limit', `${limit}, ${percent(rate.utilisation)} used`, of]]
}
