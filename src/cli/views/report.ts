import type { DiffRow, DryRunReport, RunReport, SkippedGroup } from '../../domain/report/run.ts'
import { formatLimit } from '../../domain/rate-status.ts'
import { billedUnits } from '../../domain/spend.ts'
import { padText, truncate, type Output, type TextStyle } from '../terminal.ts'
import { SOURCE_COLUMN, renderTable, renderCellGroups } from './table.ts'
import {
  formatCount,
  formatDuration,
  formatMoney,
  formatPercent,
  pluralize,
  sanitize,
} from '../../util/text.ts'
import {
  compact,
  formatCounts,
  formatSum,
  renderFields,
  renderSection,
  renderText,
  stateStyle,
  formatValue,
  type Field,
} from './layout.ts'
import { FAILED_ROW_STATES, ROW_STATES, formatState, type RowState } from '../../domain/row.ts'

/** How a run ended, and what follows its duration. */
const ENDINGS: Readonly<
  Record<RunReport['status'], readonly [style: TextStyle, ended: string, more: string]>
> = {
  completed: ['good', 'completed', ''],
  budget_reached: ['warn', 'stopped at its budget', ''],
  out_of_credits: ['bad', 'stopped without credits', ''],
  interrupted: ['warn', 'interrupted', ', state saved'],
  unauthorized: ['bad', 'stopped', ', because the service rejects the API key'],
  misconfigured: ['bad', 'stopped', ', because a setting or the description of the service is wrong'],
  failed: ['bad', 'failed', ''],
}

const DRY_RUN_NOTICE = 'Nothing was written to your tables. A run would have these results:'

/** The reason of any other end is an error, and is written to standard error. */
const STATUSES_WITH_REASON: ReadonlySet<RunReport['status']> = new Set([
  'completed',
  'budget_reached',
  'out_of_credits',
])

/** The result of a run: rows by state, lookups, calls, and the next commands. */
export function renderReport(report: RunReport, output: Output): string[] {
  const { paint } = output
  const [style, ended, more] = ENDINGS[report.status]
  const time = report.status === 'completed' ? 'in' : 'after'
  const hasReason = STATUSES_WITH_REASON.has(report.status) || report.cancelled_by !== undefined
  const reason = hasReason ? report.reason : null
  const name = report.dry_run ? 'Dry run' : 'Run'
  return [
    `${paint('heading', `${name} ${report.run}`)} ${paint(style, ended)} ${time} ${formatDuration(report.duration_ms)}${more}`,
    ...renderLeftOut(report.left_out ?? [], output),
    ...compact([reason, report.dry_run ? DRY_RUN_NOTICE : null]).flatMap((text) => renderText(output, text)),
    '',
    ...(report.rows.picked === 0 ? [describeNothingPicked(report)] : renderDetails(report, output)),
    ...renderSection(output, 'Next', renderFields(output, suggestAfterRun(report), 'type')),
  ]
}

/** The sources that are left out because they are broken, and what to do about each. */
export const renderLeftOut = (leftOut: NonNullable<RunReport['left_out']>, output: Output): string[] =>
  leftOut.flatMap(({ source, problem, mend }) =>
    renderText(output, `${source} is left out: ${problem}. ${mend}`, 'bad'),
  )

const renderDetails = (report: RunReport, output: Output): string[] => [
  ...renderRowStates(report.rows, output),
  '',
  ...(report.services === undefined
    ? []
    : [...renderServiceReports(report.services, report.dry_run !== undefined, output), '']),
  ...renderFields(output, [
    ...workFields(report),
    ...(report.services === undefined ? rateFields(report) : []),
  ]),
  ...renderSkippedSection(
    report.dry_run ? 'Cells that would be skipped' : 'Skipped cells',
    report.skipped_cells,
    output,
  ),
  ...(report.dry_run ? renderDryRun(report.dry_run, output) : []),
]

/**
 * A section of skipped cells by column and reason with their values, the most frequent first; empty
 * without any. What is beyond `max` are the rarest; they are summed up.
 */
export const renderSkippedSection = (
  title: string,
  groups: readonly SkippedGroup[],
  output: Output,
  max = 8,
): string[] =>
  renderSection(
    output,
    title,
    renderTable(
      output,
      groups.toSorted((a, b) => b.rows - a.rows),
      [
        { title: 'cells', text: ({ rows }) => formatCount(rows), number: true },
        { ...SOURCE_COLUMN, ifDifferent: true },
        { title: 'column', text: ({ column }) => column, minColumns: 8 },
        { title: 'reason', text: describeSkipped, minColumns: 12, wraps: true },
      ],
      { max, describeRest: (rest) => describeRarest(rest, 'cell'), indent: 2 },
    ),
  )

/** Sums up the reasons that are not shown: `and 7 rows for 3 rarer reasons`. */
export function describeRarest(rest: readonly { readonly rows: number }[], noun: string): string {
  const all = rest.reduce((sum, { rows }) => sum + rows, 0)
  return `and ${pluralize(all, noun)} for ${pluralize(rest.length, 'rarer reason')}`
}

/** Values of a reason that are shown; `--json` has 25. */
const MAX_VALUES = 8
const MAX_VALUE_COLUMNS = 40

/** A reason with its most frequent values: `no entry in map: Fintech (7), Biotech (5), 12 more values`. */
function describeSkipped({ description, values, distinct_values: distinct }: SkippedGroup): string {
  const shown = values.slice(0, MAX_VALUES)
  const texts = shown.map(
    ({ value, rows }) => `${truncate(formatValue(value), MAX_VALUE_COLUMNS)} (${formatCount(rows)})`,
  )
  const more = distinct - shown.length
  const list = [...texts, ...(more > 0 && shown.length > 0 ? [pluralize(more, 'more value')] : [])]
  return list.length === 0 ? description : `${description}: ${list.join(', ')}`
}

/** What each of several services found, filled and cost, and what the last one has added to the others. */
const renderServiceReports = (
  services: NonNullable<RunReport['services']>,
  isDry: boolean,
  output: Output,
): string[] => [
  ...renderTable(
    output,
    services,
    [
      { title: 'service', text: ({ service }) => service, minColumns: 8 },
      { title: 'requested', text: ({ lookups }) => formatCount(lookups.requested), number: true },
      { title: 'stored', text: ({ lookups }) => formatCount(lookups.stored), number: true, dropOrder: 2 },
      { title: 'found', text: ({ lookups }) => formatCount(lookups.found), number: true },
      { title: 'cells', text: ({ cells }) => formatCount(cells.written), number: true },
      {
        title: 'cost',
        text: ({ spend }) => (spend.cost === null ? '' : formatMoney(spend.cost)),
        number: true,
      },
      { title: 'a cell', text: formatCellCost, number: true, dropOrder: 1 },
      {
        title: 'ended',
        text: ({ status }) => (status === 'completed' ? '' : formatState(status)),
        dropOrder: 3,
      },
    ],
    { indent: 2 },
  ),
  ...services
    .slice(-1)
    .flatMap(({ service, cells, spend }) =>
      renderText(
        output,
        `The last service, ${service}, ${isDry ? 'would fill' : 'filled'} ${pluralize(cells.written, 'cell')}${spend.cost === null ? '' : ` for ${formatMoney(spend.cost)}`}.`,
      ),
    ),
]

/** What a cell has cost that the service has filled. */
function formatCellCost({
  cells,
  spend,
}: Pick<NonNullable<RunReport['services']>[number], 'cells' | 'spend'>): string {
  if (spend.cost === null || cells.written === 0) return ''
  return formatMoney({ ...spend.cost, amount: spend.cost.amount / cells.written })
}

const describeNothingPicked = (report: RunReport): string =>
  report.skipped_over_budget > 0 || report.status !== 'completed' || report.left_out !== undefined
    ? '  No row was picked.'
    : '  Nothing to do: every row that the role may read is complete, or was looked up recently. `fillrate plan` shows the numbers.'

function workFields(report: RunReport): Field[] {
  const { lookups, requests, jobs, cells } = report
  const open = Math.max(0, lookups.distinct - lookups.stored - lookups.requested)
  const results = { found: 'found', not_found: 'not found', rejected: 'rejected', failed: 'failed' }
  const calls = formatSum(requests, { person: 'person', company: 'company', bulk: 'bulk' })
  const billed = billedUnits(report.spend)
  const { cost } = report.spend
  const inDoubt = lookups.in_doubt
  const jobSum = formatSum(jobs, {
    completed: 'completed',
    failed: 'failed',
    expired: 'expired',
    in_doubt: 'in doubt',
    waiting: 'waiting',
  })
  return [
    [
      'Lookups',
      `${formatCount(lookups.distinct)} distinct = ${formatCount(lookups.stored)} stored + ${formatCount(lookups.requested)} requested` +
        (open > 0 ? ` + ${formatCount(open)} open` : ''),
      formatCounts(lookups, results),
    ],
    calls !== null && [
      'Calls',
      calls,
      formatCounts(requests, { retried: 'to be retried', throttled: 'answered 429' }),
    ],
    (cost !== null || billed.noun === 'credit') && [
      'Cost',
      cost === null ? formatCount(billed.count) : formatMoney(cost),
      `${pluralize(billed.count, billed.noun)} billed${billed.inDoubt > 0 ? `, and up to ${formatCount(billed.inDoubt)} in doubt` : ''}`,
    ],
    inDoubt > 0 && [
      'In doubt',
      `${pluralize(inDoubt, 'request')} without a response: the service may have billed ${inDoubt === 1 ? 'it' : 'them'}`,
    ],
    jobSum !== null && ['Jobs', jobSum],
    [
      'Cells',
      `${formatCount(cells.written)} ${report.dry_run ? 'would be ' : ''}written`,
      formatCounts(cells, { protected: 'protected', skipped: 'skipped' }),
    ],
  ]
}

export const SHARED_KEY_NOTICE = 'another client uses the same API key; capacity is left for it'

function rateFields({ rate }: RunReport): Field[] {
  if (rate.limit === null) return []
  const limit = formatLimit(rate.limit, rate.window_ms)
  const { utilisation, used, permitted } = rate
  return [
    utilisation === null || permitted === null
      ? ['Limit', limit]
      : [
          'Limit',
          `${limit}, ${formatPercent(utilisation)} used`,
          `${formatCount(used)} of the ${formatCount(permitted)} permitted calls`,
        ],
    rate.banned === true && [
      'Banned',
      'the service has temporarily banned the API key (403 after 429)',
      'the next run retries with one call',
    ],
    rate.shared_key === true && ['Shared', SHARED_KEY_NOTICE, 'give each client its own key'],
  ]
}

/** Waiting rows come last. */
const STATE_ORDER = [...ROW_STATES.filter((state) => state !== 'waiting'), 'waiting'] as const

/** Rows by state with their sum. States without rows are left out. */
export function renderRowStates(
  rows: { readonly picked: number } & Readonly<Record<RowState, number>>,
  output: Output,
  total = 'picked',
): string[] {
  const { paint } = output
  if (rows.picked === 0) return [`  ${paint('quiet', 'no rows')}`]
  const states = STATE_ORDER.filter((state) => rows[state] > 0)
  const names = Math.max(total.length, ...states.map((state) => state.length)) + 2
  const numbers = formatCount(rows.picked).length
  return [
    ...states.map((state) => {
      const share = rows[state] / rows.picked
      const name = padText(formatState(state), names)
      const style = stateStyle(state)
      const shares = paint('quiet', formatPercent(share).padStart(6))
      const count = formatCount(rows[state]).padStart(numbers)
      return `  ${style === null ? name : paint(style, name)}${count}  ${shares}`
    }),
    `  ${paint('quiet', '─'.repeat(names + numbers))}`,
    `  ${paint('heading', padText(total, names) + formatCount(rows.picked).padStart(numbers))}`,
  ]
}

/** A command, and its purpose. */
type Suggestion = Exclude<Field, false | null>

/** The commands that deal with what a run has left open. */
export function suggestAfterRun(
  report: Pick<
    RunReport,
    'status' | 'rows' | 'cells' | 'jobs' | 'skipped_over_budget' | 'unread_over_budget' | 'dry_run'
  >,
): Suggestion[] {
  const { rows, cells, jobs, status, skipped_over_budget: skipped } = report
  const failed = FAILED_ROW_STATES.reduce((sum, state) => sum + rows[state], 0)
  const why = compact([
    failed > 0 && `${pluralize(failed, 'row')} failed`,
    cells.skipped > 0 && `${pluralize(cells.skipped, 'cell')} skipped`,
  ])
  const isExact = skipped > 0 && report.unread_over_budget === undefined
  const open = rows.waiting > 0 ? jobs.waiting + jobs.in_doubt : 0
  return compact<Suggestion>([
    why.length > 0 && !report.dry_run && ['fillrate failures', `lists the reasons: ${why.join(', ')}`],
    (status === 'failed' || status === 'misconfigured') && [
      'fillrate check',
      'finds the problem and how to fix it',
    ],
    status === 'unauthorized' && ['fillrate check --call email=…', 'proves the key with one lookup'],
    (status === 'budget_reached' || skipped > 0) && [
      'fillrate plan',
      `estimates the cost of ${isExact ? pluralize(skipped, 'remaining row') : 'the rest'}`,
    ],
    report.dry_run !== undefined &&
      rows.enriched > 0 && [
        'fillrate run',
        'writes the changes from the stored records, without repeating a lookup',
      ],
    open > 0 && [
      'fillrate status',
      `${pluralize(open, 'job')} waiting for ${open === 1 ? 'its' : 'their'} results`,
    ],
    rows.waiting > 0 && [
      'fillrate run',
      `continues with ${pluralize(rows.waiting, 'waiting row')}, and repeats no lookup`,
    ],
  ])
}

/** Rows before and after, cell by cell. */
export function renderDiff(sample: readonly DiffRow[], output: Output): string[] {
  const { paint } = output
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  const renderTitle = (row: DiffRow): string[] => [
    truncate(`  ${paint('heading', sanitize(row.key))}  ${paint('quiet', describeRow(row))}`, edge),
  ]
  const lines = renderCellGroups(output, sample, renderTitle, [
    { title: 'column', text: (cell) => cell.column, minColumns: 8 },
    { title: 'before', text: (cell) => formatValue(cell.before), minColumns: 8 },
    { title: 'after', text: (cell) => formatValue(cell.after), minColumns: 8, style: () => 'good' },
    { title: 'service', text: (cell) => cell.service ?? '', minColumns: 6 },
  ])
  return lines
}

const describeRow = ({ source, confidence }: DiffRow): string =>
  confidence === null ? source : `${source}, confidence ${confidence}`

/** The result of a dry run, below a blank line: cells by column, and a sample of rows. Empty if nothing would be written. */
export function renderDryRun({ columns, sample }: DryRunReport, output: Output): string[] {
  const written = columns.filter((column) => column.written > 0)
  if (written.length === 0) return []
  const several = new Set(columns.map((column) => column.source)).size > 1
  const [, ...lines] = renderTable(
    output,
    written,
    [
      {
        title: 'column',
        text: ({ source, column }) => (several ? `${source}.${column}` : column),
        minColumns: 10,
      },
      { title: 'cells', text: ({ written }) => formatCount(written), number: true },
    ],
    { indent: 2 },
  )
  return [
    ...renderSection(output, 'Cells that would be written', lines),
    ...renderSection(
      output,
      `Before and after, in ${pluralize(sample.length, 'row')}`,
      renderDiff(sample, output),
    ),
  ]
}
