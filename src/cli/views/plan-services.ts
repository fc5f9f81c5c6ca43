import type { Plan } from '../../actions/plan/plan.ts'
import type { ServicePlan } from '../../actions/plan/report.ts'
import { formatCount, formatDuration, pluralize } from '../../util/format.ts'
import type { Output } from '../terminal.ts'
import { renderFields } from './layout.ts'
import { formatAmounts, formatPlanBudget, formatTimeEstimate, type PlanSettings } from './plan-cost.ts'
import { renderTable } from './table.ts'

/** A plan of several services in order: each with its lookups, cost and time; then all of them. */
export function renderServicePlans(
  plan: Plan & { readonly services: readonly ServicePlan[] },
  settings: PlanSettings,
  output: Output,
): string[] {
  const { services, cost, time } = plan
  const untimed = services.filter((one) => one.time.ms === null).map(({ service }) => service)
  return [
    ...renderTable(
      output,
      services,
      [
        { title: 'service', text: ({ service }) => service, minColumns: 8 },
        { title: 'certain', text: ({ lookups }) => formatCount(lookups.certain), number: true },
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
      cost.max_lookups > 0 && [
        'Time',
        untimed.length === 0 ? formatTimeEstimate(time) : `unknown for ${untimed.join(', ')}`,
        'all services work at the same time',
      ],
    ]),
  ]
}

/** Of the certain lookups, and of the most where they take longer. */
function formatShortTime({ ms, max_ms: most }: ServicePlan['time']): string {
  if (ms === null || most === null) return '?'
  return most > ms ? `${formatDuration(ms)} to ${formatDuration(most)}` : formatDuration(ms)
}
