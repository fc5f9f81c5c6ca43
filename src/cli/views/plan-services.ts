import type { Plan } from '../../actions/plan/plan.ts'
import type { ServicePlan } from '../../actions/plan/report.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../util/format.ts'
import type { Output } from '../terminal.ts'
import { renderFields } from './layout.ts'
import { formatAmounts, formatPlanBudget, formatTimeEstimate, type PlanSettings } from './plan-cost.ts'
import { renderTable } from './table.ts'

/** A plan of several services in order: each with what it found so far, its lookups, cost and time; then all of them. */
export function renderServicePlans(
  plan: Plan & { readonly services: readonly ServicePlan[] },
  settings: PlanSettings,
  output: Output,
): string[] {
  const { services, cost, time } = plan
  const unknown = services.filter(({ lookups }) => lookups.likely === null).map(({ service }) => service)
  const untimed = services.filter((one) => one.time.ms === null).map(({ service }) => service)
  return [
    ...renderTable(
      output,
      services,
      [
        { title: 'service', text: ({ service }) => service, minColumns: 8 },
        { title: 'found so far', text: describeFound, minColumns: 8, dropOrder: 2 },
        { title: 'certain', text: ({ lookups }) => formatCount(lookups.certain), number: true, dropOrder: 1 },
        { title: 'likely', text: ({ lookups }) => formatLikely(lookups.likely), number: true },
        { title: 'at most', text: ({ lookups }) => formatCount(lookups.max), number: true },
        { title: 'cost', text: (one) => formatAmounts(one.cost) ?? '', number: true, dropOrder: 4 },
        {
          title: 'budget',
          text: (one) => (one.cost.budget === null ? '' : formatCount(one.cost.budget)),
          number: true,
        },
        { title: 'time', text: (one) => formatShortTime(one.time), number: true, dropOrder: 3 },
      ],
      { indent: 2 },
    ),
    '',
    ...renderFields(output, [
      [
        'Cost',
        [
          cost.max_lookups > cost.lookups
            ? `${formatCount(cost.lookups)} to ${formatCount(cost.max_lookups)} lookups`
            : pluralize(cost.lookups, 'lookup'),
          formatAmounts(cost),
        ]
          .filter((part) => part !== null)
          .join(', '),
        cost.budget === null || cost.beyond_budget === 0 ? formatPlanBudget(plan, settings) : '',
      ],
      cost.beyond_budget > 0 && [
        'Beyond',
        `${pluralize(cost.beyond_budget, 'lookup')} beyond the budgets: what these do not pay is left for later runs`,
      ],
      unknown.length > 0 && [
        'Likely',
        `not known yet for ${unknown.join(', ')}`,
        'a first run, such as `fillrate run --limit 1000`, shows how many rows come to them',
      ],
      cost.max_lookups > 0 && [
        'Time',
        untimed.length === 0 ? formatTimeEstimate(time) : `unknown for ${untimed.join(', ')}`,
        'all services work at the same time',
      ],
    ]),
  ]
}

const describeFound = ({ found }: ServicePlan): string =>
  found === null ? 'not known yet' : `${formatPercent(found.share)} of ${pluralize(found.rows, 'row')}`

/** Of the likely lookups, and of the most where they take longer. */
function formatShortTime({ ms, max_ms: most }: ServicePlan['time']): string {
  if (ms === null || most === null) return '?'
  return most > ms ? `${formatDuration(ms)} to ${formatDuration(most)}` : formatDuration(ms)
}

const formatLikely = (likely: number | null): string => (likely === null ? '?' : formatCount(likely))
