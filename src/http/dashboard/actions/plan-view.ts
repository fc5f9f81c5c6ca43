import type { SourcePlan } from '../../../actions/plan/funnel.ts'
import {
  describeBeyondBudget,
  formatAmounts,
  formatPlanTime,
  type Plan,
} from '../../../actions/plan/report.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { badge, card, dataTable, definitionList, nameText, withCode } from '../components.ts'
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
  return [
    ['Lookups', html`<b class="figure">${about}${formatRange(cost.lookups, cost.max_lookups)}</b>`],
    ['Cost', formatAmounts(cost)],
    ['Answered already', lookups.stored === 0 ? null : `${pluralize(lookups.stored, 'lookup')}, free`],
    ['Beyond the budget', describeBeyondBudget(plan)],
    ['API calls', calls.total === 0 ? 'none' : formatCount(calls.total)],
    ['Time', calls.total === 0 ? null : formatPlanTime(plan.time, plan.services)[0]],
  ]
}

const servicesTable = (services: NonNullable<Plan['services']>): Html =>
  dataTable<NonNullable<Plan['services']>[number]>(
    'Lookups of each service, in their order',
    [
      { name: 'service', kind: 'row', cell: ({ service }) => nameText(service) },
      { name: 'certain', kind: 'number', cell: ({ lookups: { certain } }) => formatCount(certain) },
      { name: 'at most', kind: 'number', cell: ({ lookups: { max } }) => formatCount(max) },
      { name: 'cost', kind: 'number', cell: ({ cost }) => formatAmounts(cost) },
    ],
    services,
  )

const formatRange = (min: number, max: number): string =>
  min === max ? formatCount(min) : `${formatCount(min)} to ${formatCount(max)}`

/** What each source has. Every plan has the same columns. */
const sourcesTable = ({ sources, paused }: Plan): Html =>
  html`${dataTable<SourcePlan>(
    'Rows of each source',
    [
      { name: 'source', kind: 'row', cell: ({ source }) => nameText(source) },
      { name: 'rows read', kind: 'number', cell: ({ rows }) => formatCount(rows) },
      { name: 'nothing to do', kind: 'number', cell: ({ complete, fresh }) => formatCount(complete + fresh) },
      { name: 'held by a run', kind: 'number', cell: ({ held }) => held > 0 && formatCount(held) },
      { name: 'unusable input', kind: 'number', cell: (source) => formatCount(countInvalid(source)) },
      { name: 'picked', kind: 'number', cell: ({ picked }) => formatCount(picked) },
    ],
    sources,
  )}
  ${paused.map((name) => html`<p class="sub">${nameText(name)} ${badge('paused', 'warn')} the run skips it</p>`)}
  ${sources.some(({ stopped_at: stoppedAt }) => stoppedAt !== null) && html`<p class="sub">Read up to the limit or the budget, as the run would.</p>`}`

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
