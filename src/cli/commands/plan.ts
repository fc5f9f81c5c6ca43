import { Option } from '@commander-js/extra-typings'
import type { Plan, ServicePlan, SourcePlan } from '../../domain/report/plan.ts'
import { describeBeyondBudget, describeCost, formatPlanTime } from '../../actions/plan/report.ts'
import { lookupBudgetOf, mixedBudgetOf, type Config } from '../../config/config.ts'
import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { budgetOption, limitOption, routeOption, whereOption } from '../options.ts'
import { padText, textWidth, wrapText, type Output } from '../terminal.ts'
import { useApp } from '../settings.ts'
import { BY_KIND } from '../../domain/identifiers/kind.ts'
import { renderTable } from '../views/table.ts'
import type { ConfiguredBudget } from '../../domain/spend.ts'
import { compact, formatCounts, formatSum, placeBeside, renderFields, type Field } from '../views/layout.ts'
import { renderLeftOut } from '../views/report.ts'
import { squashText } from '../../sources/problems.ts'
import { formatCount, formatMoney, pluralize } from '../../util/text.ts'

export const planCommand = defineCommand(
  createParser('plan')
    .summary('estimates lookups, API calls, cost and time; makes no call and writes nothing')
    .description(
      'Takes the same steps as a run, up to the first call: rows, distinct lookups, stored results, calls by route, ' +
        'cost and time. With --limit it reads no further than a run; without it, every row.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(limitOption)
    .addOption(budgetOption)
    .addOption(whereOption)
    .addOption(routeOption)
    .addOption(
      new Option(
        '--list <WHICH>',
        'also name some of the rows that each condition of `where` leaves out (`filtered`), by their keys',
      )
        .choices(['filtered'])
        .default(null),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate plan', 'all sources'],
      ['fillrate plan --list filtered', 'and what each condition of `where` leaves out, with keys'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],

    async handler(call) {
      const { limit, budget, where, route, list } = call.flags
      const { stdout, stderr, signal } = call
      const { app, config } = await useApp(call, { opensUnreviewed: true })
      const sources = app.expandSourceNames(call.args[0])
      const request = { sources, limit, budget: budget ?? undefined, where, route, signal }
      const plan = await app.plan({ ...request, listsFiltered: list === 'filtered' })
      warnOfUnreviewed(config, plan, stderr)
      return {
        json: plan,
        text: () => renderPlan(plan, stdout, budget ?? mixedBudgetOf(config) ?? lookupBudgetOf(config)),
      }
    },
  },
)

/** A run would leave these out. */
function warnOfUnreviewed({ sources }: Config, plan: Plan, stderr: Output): void {
  const names = plan.sources.flatMap(({ source }) => (sources[source]?.reviewed === false ? [source] : []))
  if (names.length > 0)
    stderr.line(
      `${stderr.paint('warn', `Not reviewed: ${names.join(', ')}.`)} A run leaves out what no person has read: ` +
        'read it in the configuration, then take out `reviewed: false`.',
    )
}

/**
 * A plan: each source as a funnel whose numbers add up, then the lookups, calls and cost of all sources.
 * @param budget from the command line or the configuration; null if neither sets it
 */
export function renderPlan(plan: Plan, output: Output, budget: ConfiguredBudget | null): string[] {
  const labels = Math.max(
    ...plan.sources.flatMap((source) => funnelSteps(source).map((step) => step.label.length + 2)),
  )
  const numbers = Math.max(...plan.sources.map((source) => formatCount(source.table ?? source.rows).length))
  return [
    ...plan.paused.map(
      (name) => `${name}  ${output.paint('warn', 'is paused: runs skip it until it is resumed')}`,
    ),
    ...renderLeftOut(plan.left_out, output),
    ...(plan.paused.length + plan.left_out.length > 0 ? [''] : []),
    ...plan.sources.flatMap((source) => [
      ...renderSourceFunnel(funnelSteps(source), source.source, { labels, numbers }, output),
      '',
    ]),
    output.paint('heading', plan.sources.length > 1 ? 'All sources' : 'Lookups'),
    ...(plan.services === undefined ? [] : [...renderServices(plan.services, output), '']),
    ...renderFields(output, [...lookupFields(plan), ...costFields(plan, budget)]),
  ]
}

/** A line of a funnel. A sum is what is left of the lines above it. */
interface FunnelStep {
  readonly label: string
  readonly rows: number
  readonly sum: boolean
  readonly why: string
  /** Lines under the reason. */
  readonly notes: readonly string[]
}

/** A line for each condition of the filter: what it leaves out, with keys where they were requested. */
function describeConditions({ conditions, conditions_error: error }: SourcePlan): string[] {
  if (error !== null) return [`by condition: not counted: ${error}`]
  return (conditions ?? []).map(
    ({ condition, rows, alone, keys = [] }) =>
      compact([
        `${formatCount(rows)} by ${squashText(condition)}`,
        alone < rows && `${formatCount(alone)} by it alone`,
      ]).join(', ') + (keys.length === 0 ? '' : `: ${keys.join(', ')}`),
  )
}

/** Rows that row-level security hides look like none. */
const describeTable = (rows: number): string =>
  rows === 0 ? 'no row that the role may read: see `fillrate check`' : 'rows in the table'

/** Several inputs with a fault each have many combinations. */
const MAX_REASONS = 12

function funnelSteps(source: SourcePlan): FunnelStep[] {
  const left = (label: string, rows: number, why: string, notes: readonly string[] = []): FunnelStep => ({
    label,
    rows,
    sum: false,
    why,
    notes,
  })
  const total = (label: string, rows: number, why = '', notes: readonly string[] = []): FunnelStep => ({
    ...left(label, rows, why, notes),
    sum: true,
  })
  const invalid = Object.entries(source.invalid_input).sort(([, a], [, b]) => b - a)
  const named = invalid.slice(0, MAX_REASONS)
  const rest = invalid.slice(named.length)
  const { table, without_key: withoutKey, filtered_out: filteredOut, where_out: whereOut } = source
  const isWhole = table !== null && withoutKey !== null && filteredOut !== null && whereOut !== null
  const isFiltered = isWhole && withoutKey + filteredOut + whereOut > 0
  return [
    ...(isFiltered
      ? [
          total('in the table', table),
          left('without a key', withoutKey, 'NULL in a column of the key: nothing identifies them'),
          left('filtered out', filteredOut, "by the source's filter and joins", describeConditions(source)),
          left('filtered out', whereOut, 'by --where'),
        ]
      : []),
    isWhole
      ? total('eligible', source.rows, isFiltered ? '' : describeTable(source.rows))
      : total('read', source.rows, 'eligible rows, up to the limit', describeConditions(source)),
    left('complete', source.complete, 'nothing to fill'),
    left(
      'fresh',
      source.fresh - (source.recently_enriched?.rows ?? 0),
      'looked up before, and not due for a refresh',
    ),
    left('recent', source.recently_enriched?.rows ?? 0, source.recently_enriched?.reason ?? ''),
    left('held', source.held, 'by a run in progress'),
    total('to pick', source.picked),
    ...named.map(([reason, rows]) => left('invalid input', rows, reason)),
    left(
      'invalid input',
      rest.reduce((all, [, rows]) => all + rows, 0),
      `for ${pluralize(rest.length, 'rarer reason')}; --json has them`,
    ),
    left('suppressed', source.suppressed, 'erased, never looked up'),
    total('to look up', source.valid_input),
  ]
}

function renderSourceFunnel(
  steps: readonly FunnelStep[],
  name: string,
  widths: { labels: number; numbers: number },
  output: Output,
): string[] {
  const { paint } = output
  const lines = steps
    .filter((step) => step.sum || step.rows > 0)
    .flatMap(({ label, rows, sum, why, notes }, n) => {
      const sign = n === 0 ? ' ' : sum ? '=' : '−'
      const start = `${sign} ${padText(label, widths.labels)}${formatCount(rows).padStart(widths.numbers)}`
      const room = (output.columns ?? Number.POSITIVE_INFINITY) - textWidth(start) - 4
      const reasons = room < 12 ? [''] : [why, ...notes].flatMap((line) => wrapText(line, room))
      return placeBeside(
        `  ${sum ? paint('heading', start) : start}  `,
        reasons.map((line) => paint('quiet', line)),
      ).map((line) => line.trimEnd())
    })
  return [paint('heading', name), ...lines]
}

function lookupFields({ lookups, calls }: Plan): Field[] {
  return [
    [
      'Lookups',
      `${lookups.is_estimate ? 'about ' : ''}${formatCount(lookups.distinct)} distinct = ${formatCount(lookups.stored)} stored + ${formatCount(lookups.requested)} to request`,
      formatCounts(lookups.to_request, BY_KIND),
    ],
    ['Calls', formatSum(calls, { person: 'person', company: 'company', bulk: 'bulk' }) ?? 'none'],
  ]
}

/** The services in their order, each with its lookups and cost. */
const renderServices = (services: readonly ServicePlan[], output: Output): string[] =>
  renderTable(
    output,
    services,
    [
      { title: 'service', text: ({ service }) => service, minColumns: 8 },
      { title: 'certain', text: ({ lookups }) => formatCount(lookups.certain), number: true },
      { title: 'at most', text: ({ lookups }) => formatCount(lookups.max), number: true },
      {
        title: 'cost at most',
        text: ({ max_amount: most }) => (most === null ? '' : formatMoney(most)),
        number: true,
        dropOrder: 4,
      },
    ],
    { indent: 2 },
  )

function costFields(plan: Plan, budget: ConfiguredBudget | null): Field[] {
  const { cost, time, services } = plan
  const isRange = cost.max_lookups > cost.lookups
  const more =
    services !== undefined
      ? 'a row may go on to the next service'
      : cost.max_credits === undefined
        ? 'a row without a match is looked up by its next identifier'
        : 'what the answers cost decides how many the budget pays'
  return [
    ['Cost', describeCost(cost), `${isRange ? `${more}; ` : ''}${formatPlanBudget(plan, budget)}`],
    cost.max_lookups > 0 && ['Time', formatPlanTime(time)],
  ]
}

function formatPlanBudget({ cost }: Plan, budget: ConfiguredBudget | null): string {
  if (budget === null) return 'no budget is set: a run requires --budget'
  const beyond = describeBeyondBudget(cost)
  // The budget of a service or of a source may pay less than that of the run.
  if (beyond !== null) return `${beyond} beyond the budgets`
  if (budget === 'unlimited') return 'unlimited budget'
  return `within the budget of ${typeof budget === 'number' ? formatCount(budget) : formatMoney(budget)}`
}
