import { Option } from '@commander-js/extra-typings'
import type { InvalidInputRow } from '../../actions/plan/funnel.ts'
import type { Plan } from '../../actions/plan/report.ts'
import { type Config, lookupBudgetOf, mixedBudgetOf } from '../../config/config.ts'
import { Exit, SOURCES_ARGUMENT, createParser, defineCommand, printAnswer } from '../command.ts'
import { budgetOption, limitOption, routeOption, whereOption } from '../options.ts'
import { toBulkJson } from '../../actions/bulk-availability.ts'
import type { Output } from '../terminal.ts'
import { renderPlan } from '../views/plan.ts'
import { useApp } from '../settings.ts'

/** Rows that `--list` shows. */
const MAX_LISTED = 100

export const planCommand = defineCommand(
  createParser('plan')
    .summary('estimates lookups, API calls, cost and time; makes no call and writes nothing')
    .description(
      'Takes the same steps as a run, up to the first call: rows, distinct lookups, stored results, calls by route, ' +
        'cost and time. With --limit or --budget it reads no further than a run; without them it reads every row.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(limitOption)
    .addOption(budgetOption)
    .addOption(whereOption)
    .addOption(routeOption)
    .addOption(
      new Option(
        '--list <WHICH>',
        `also name rows by their keys: without a usable input (\`invalid\`), the first ${MAX_LISTED}; ` +
          'or some of those that each condition leaves out (`filtered`)',
      )
        .choices(['invalid', 'filtered'])
        .default(null),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate plan', 'all sources'],
      ['fillrate plan --list invalid', 'and the rows that have no usable input'],
      ['fillrate plan --list filtered', 'and what each condition of `where` leaves out, with keys'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],

    async handler(call) {
      const { limit, budget, where, route, list } = call.flags
      const { stdout, stderr, signal } = call
      const { app, config } = await useApp(call, { opensUnreviewed: true })
      const sources = app.expandSourceNames(call.args[0])
      const invalid: InvalidInputRow[] = []
      const onInvalid = (rows: readonly InvalidInputRow[]): void => {
        invalid.push(...rows.slice(0, MAX_LISTED - invalid.length))
      }
      const request = { sources, limit, budget: budget ?? undefined, where, route, signal }
      const plan = await app.plan({
        ...request,
        onInvalid: list === 'invalid' ? onInvalid : undefined,
        listsFiltered: list === 'filtered',
      })
      printAnswer(call, {
        json: { ...plan, ...(list === 'invalid' && { invalid }), bulk: toBulkJson(app.bulkOf(sources)) },
        text: () => {
          const budgetOfRun = budget ?? mixedBudgetOf(config) ?? lookupBudgetOf(config)
          return renderPlan(plan, stdout, { budget: budgetOfRun, invalid })
        },
      })
      warnOfUnreviewed(config, plan, stderr)
      return Exit.done
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
