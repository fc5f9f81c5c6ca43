import type { SourcePlan } from '../../../actions/plan/funnel.ts'
import { describeBeyondBudget, type Plan } from '../../../actions/plan/report.ts'
import { formatCount, formatDuration, formatMoney, pluralize } from '../../../util/format.ts'
import { badge, card, type DataColumn, dataTable, definitionList, nameText, withCode } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'

/** Cards that show what a run would request and pick. */
export const planCards = (plan: Plan): readonly Html[] => [
  card('cost', 'What it requests', [
    definitionList(costFields(plan)),
    plan.services !== undefined && servicesTable(plan.services),
  ]),
  card('plan', 'What it picks', [leftOutNotice(plan.left_out), sourcesTable(plan)]),
]

function costFields(plan: Plan): ReadonlyArray<readonly [string, HtmlPart]> {
  const { lookups, calls, cost } = plan
  const about = lookups.is_estimate ? 'about ' : ''
  const byRoute = [
    [calls.person, `${formatCount(calls.person)} for people`],
    [calls.company, `${formatCount(calls.company)} for companies`],
    [calls.bulk, pluralize(calls.bulk, 'bulk job')],
    [calls.polls, `at least ${pluralize(calls.polls, 'poll')} of jobs`],
  ] as const
  return [
    ['Lookups', html`<b class="figure">${about}${formatRange(cost.lookups, cost.max_lookups)}</b>`],
    ['Cost', describeAmount(cost)],
    ['Answered already', lookups.stored === 0 ? null : `${pluralize(lookups.stored, 'lookup')}, free`],
    ['Beyond the budget', describeBeyondBudget(plan)],
    [
      'API calls',
      calls.total === 0
        ? 'none'
        : `${formatCount(calls.total)}: ${byRoute
            .filter(([count]) => count > 0)
            .map(([, name]) => name)
            .join(', ')}`,
    ],
    ['Time', calls.total === 0 ? null : describeTime(plan.time)],
  ]
}

const servicesTable = (services: NonNullable<Plan['services']>): Html =>
  dataTable<NonNullable<Plan['services']>[number]>(
    'Lookups of each service, in their order',
    [
      { name: 'service', kind: 'row', cell: ({ service }) => nameText(service) },
      { name: 'certain', kind: 'number', cell: ({ lookups: { certain } }) => formatCount(certain) },
      { name: 'at most', kind: 'number', cell: ({ lookups: { max } }) => formatCount(max) },
      { name: 'cost', kind: 'number', cell: ({ cost }) => describeAmount(cost) },
    ],
    services,
  )

/** Null without a price in the configuration. */
function describeAmount({
  amount,
  max_amount: max,
}: Pick<Plan['cost'], 'amount' | 'max_amount'>): string | null {
  if (amount === null || max === null) return null
  return max.amount > amount.amount ? `${formatMoney(amount)} to ${formatMoney(max)}` : formatMoney(amount)
}

function describeTime({ limit, window_ms: windowMs, ms, max_ms: maxMs }: Plan['time']): string {
  if (limit === null) return 'unknown until the first call returns the rate limit'
  const rate = `${formatCount(limit)} calls${windowMs === null ? '' : ` in ${formatDuration(windowMs)}`}`
  if (ms === null || maxMs === null) return `the rate limit is ${rate}`
  if (maxMs === 0) return `within one window of ${rate}`
  return `about ${ms === maxMs ? formatDuration(ms) : `${formatDuration(ms)} to ${formatDuration(maxMs)}`}, at ${rate}`
}

const formatRange = (min: number, max: number): string =>
  min === max ? formatCount(min) : `${formatCount(min)} to ${formatCount(max)}`

type CountColumn = readonly [name: string, count: (source: SourcePlan) => number]

const COLUMNS: readonly CountColumn[] = [
  ['rows read', ({ rows }) => rows],
  ['complete', ({ complete }) => complete],
  ['up to date', ({ fresh }) => fresh],
  ['held by a run', ({ held }) => held],
  ['picked', ({ picked }) => picked],
  ['unusable input', (source) => countInvalid(source)],
]

function sourcesTable({ sources, paused }: Plan): Html {
  // Columns of zeros would push the others out of a phone.
  const columns = COLUMNS.filter(
    ([name, count]) =>
      name === 'rows read' || name === 'picked' || sources.some((source) => count(source) > 0),
  )
  const lines = [
    ...sources.map((source) => ({ name: source.source, source })),
    ...paused.map((name) => ({ name, source: null })),
  ]
  return html`${dataTable<(typeof lines)[number]>(
    'Rows of each source',
    [
      {
        name: 'source',
        kind: 'row',
        cell: ({ name, source }) => [
          nameText(name),
          source === null && [
            ' ',
            badge('paused', 'warn'),
            html` <span class="soft">the run skips it</span>`,
          ],
        ],
      },
      ...columns.map(([name, count]): DataColumn<(typeof lines)[number]> => ({
        name,
        kind: 'number',
        cell: ({ source }) => source && formatCount(count(source)),
      })),
    ],
    lines,
  )}
  ${sources.some(({ stopped_at: stoppedAt }) => stoppedAt !== null) && html`<p class="sub">Read up to the limit or the budget, as the run would.</p>`}`
}

/** The sources that are left out because they are broken, and what to do about each. */
const leftOutNotice = (leftOut: Plan['left_out']): HtmlPart =>
  leftOut.map(
    ({ source, problem, mend }) =>
      html`<p class="notice warn">
        ${source} is left out: ${withCode(problem)}. <b>What to do:</b> ${withCode(mend)}
      </p>`,
  )

const countInvalid = ({ invalid_input: invalid, suppressed }: SourcePlan): number =>
  Object.values(invalid).reduce((sum, rows) => sum + rows, suppressed)
