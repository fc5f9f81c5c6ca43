import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { DiffRow } from '../../pipeline/preview.ts'
import type { Plan, SourcePlan } from '../../actions/plan/plan.ts'
import { type Output, padText, textWidth, wrapText } from '../terminal.ts'
import { renderDiff } from './diff.ts'
import { type LabeledText, formatCounts, renderFields } from './layout.ts'
import { formatLimit } from './rate-status.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../util/format.ts'

export interface PlanSettings {
  /** As given or configured; null is neither. */
  readonly budget: number | 'unlimited' | null
  /** Why bulk is off; null where it is on or not wanted. */
  readonly bulkOff: string | null
}

/** A plan: each source as a funnel whose numbers add up, then what all of them together would ask and cost. */
export function renderPlan(plan: Plan, output: Output, settings: PlanSettings): string[] {
  const labels = Math.max(
    ...plan.sources.flatMap((source) => steps(source).map((step) => step.label.length + 2)),
  )
  const numbers = Math.max(...plan.sources.map((source) => formatCount(source.table).length))
  return [
    ...plan.paused.map(
      (name) => `${name}  ${output.paint('warn', 'is paused: a run leaves it out until it is resumed')}`,
    ),
    ...(plan.paused.length > 0 ? [''] : []),
    ...plan.sources.flatMap((source) => [...sourceLines(source, { labels, numbers }, output), '']),
    output.paint('heading', plan.sources.length > 1 ? 'Together' : 'To ask'),
    ...renderFields([...asking(plan, settings), ...costing(plan, settings)], output),
    ...(plan.sample === undefined ? [] : ['', ...sampleLines(plan.sample, output)]),
  ]
}

function sampleLines(sample: readonly DiffRow[], output: Output): string[] {
  if (sample.length === 0)
    return wrapText(
      'No stored record would change a row: only `fillrate run --dry-run` can show what would come.',
      output.textColumns,
    )
  const title = `Before and after, in ${pluralize(sample.length, 'row')} whose records are stored`
  return [output.paint('heading', title), ...renderDiff(sample, output)]
}

/** One line of a funnel: `sum` stands under a rule and is what is left of the lines above it. */
interface Step {
  readonly label: string
  readonly rows: number
  readonly sum: boolean
  readonly why: string
}

/** Reasons shown by name: of several inputs, each with a fault, there are many combinations. */
const REASONS = 12

function steps(source: SourcePlan): Step[] {
  const left = (label: string, rows: number, why: string): Step => ({ label, rows, sum: false, why })
  const total = (label: string, rows: number, why = ''): Step => ({ label, rows, sum: true, why })
  const invalid = Object.entries(source.invalid_input).sort(([, a], [, b]) => b - a)
  const rest = invalid.slice(REASONS)
  const whole = source.filtered_out + source.where_out > 0
  return [
    ...(whole ? [total('in the table', source.table)] : []),
    left('filtered out', source.filtered_out, "by the source's filter and joins"),
    left('filtered out', source.where_out, 'by --where'),
    total('eligible', source.rows, whole ? '' : 'rows in the table'),
    left('complete', source.complete, 'nothing to fill'),
    left('fresh', source.fresh, 'asked before, and not due'),
    left('held', source.held, 'by a run that is under way'),
    left('beyond the limit', source.beyond_limit, 'by --limit'),
    total('to pick', source.picked),
    ...invalid.slice(0, REASONS).map(([reason, rows]) => left('invalid input', rows, reason)),
    left(
      'invalid input',
      rest.reduce((all, [, rows]) => all + rows, 0),
      `for ${pluralize(rest.length, 'more reason', 'more reasons')}; --json has them`,
    ),
    left('suppressed', source.suppressed, 'never to be asked'),
    total('to look up', source.valid_input),
  ]
}

function sourceLines(
  source: SourcePlan,
  widths: { labels: number; numbers: number },
  output: Output,
): string[] {
  const { paint } = output
  const lines = steps(source)
    .filter((step) => step.sum || step.rows > 0)
    .flatMap(({ label, rows, sum, why }, n) => {
      const sign = n === 0 ? ' ' : sum ? '=' : '−'
      const start = `${sign} ${padText(label, widths.labels)}${formatCount(rows).padStart(widths.numbers)}`
      const room = (output.columns ?? Number.POSITIVE_INFINITY) - textWidth(start) - 4
      const [first = '', ...more] = room < 12 ? [] : wrapText(why, room)
      const indent = ' '.repeat(textWidth(start) + 4)
      return [
        `  ${sum ? paint('heading', start) : start}${first === '' ? '' : `  ${paint('quiet', first)}`}`,
        ...more.map((line) => indent + paint('quiet', line)),
      ]
    })
  return [paint('heading', source.source), ...lines]
}

const BY: Readonly<Record<LookupKind, string>> = {
  email: 'by email',
  linkedin_url: 'by profile URL',
  name_company: 'by name and company',
  domain: 'by domain',
}

function asking({ lookups, calls }: Plan, { bulkOff }: PlanSettings): LabeledText[] {
  return [
    [
      'Lookups',
      `${formatCount(lookups.distinct)} distinct = ${formatCount(lookups.stored)} answered before + ${formatCount(lookups.requested)} to ask`,
      formatCounts(lookups.to_request, BY),
    ],
    [
      'Calls',
      calls.total === 0
        ? 'none'
        : `${formatCount(calls.total)} = ${formatCounts(calls, { person: 'for a person', company: 'for a company', bulk: 'with a job' }, ' + ')}`,
    ],
    ...(bulkOff === null ? [] : [['Bulk', `off: ${bulkOff}`] as const]),
  ]
}

function costing({ cost, time }: Plan, settings: PlanSettings): LabeledText[] {
  const found =
    cost.match_rate === null || cost.found_range === null
      ? 'how many are found will be known after the first run'
      : `${rangeText(cost.found_range)} found, at the ${formatPercent(cost.match_rate)} found so far`
  const lookups =
    cost.max_lookups > cost.lookups
      ? [
          `${rangeText({ min: cost.lookups, max: cost.max_lookups })} lookups`,
          `the more the less is found, for a row goes on to its next identifier; ${budgetText(cost, settings)}`,
        ]
      : [pluralize(cost.lookups, 'lookup'), budgetText(cost, settings)]
  return [
    ['Cost', lookups[0] ?? '', lookups[1] ?? ''],
    ...(cost.max_lookups === 0
      ? []
      : ([
          ['Match', found],
          ['Time', timeText(time)],
        ] as const)),
  ]
}

const rangeText = ({ min, max }: { readonly min: number; readonly max: number }): string =>
  min === max ? formatCount(min) : `${formatCount(min)} to ${formatCount(max)}`

function budgetText(cost: Plan['cost'], { budget }: PlanSettings): string {
  if (budget === null) return 'no budget is set: a run wants --budget'
  if (budget === 'unlimited') return 'the budget is unlimited'
  const of = `the budget of ${formatCount(budget)}`
  return cost.beyond_budget > 0 ? `${pluralize(cost.beyond_budget, 'lookup')} beyond ${of}` : `within ${of}`
}

function timeText({ limit, window_ms: windowMs, ms, max_ms: most }: Plan['time']): string {
  if (limit === null) return 'not known before the first call tells the limit'
  const known = formatLimit(limit, windowMs)
  if (ms === null || most === null) return `the limit is ${known}`
  const about =
    most > ms
      ? `${formatDuration(ms)} to ${formatDuration(most)}`
      : ms === 0
        ? 'one window'
        : `about ${formatDuration(ms)}`
  return `${about}, at ${known}`
}
