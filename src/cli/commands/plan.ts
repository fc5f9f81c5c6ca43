import { lookupBudgetOf, mixedBudgetOf } from '../../config/config.ts'
import {
  type CliCall,
  Exit,
  SERVICE_VARIABLES,
  SOURCES_ARGUMENT,
  createParser,
  defineCommand,
  printAnswer,
} from '../command.ts'
import { budgetOption, limitOption, parseWholeFrom, routeOption, whereOption } from '../options.ts'
import { toBulkJson } from '../../actions/bulk-availability.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import type { Database } from '../../store/open.ts'
import { renderPlan } from '../views/plan.ts'
import { explainWhereError, useApp } from '../settings.ts'

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
    .option('--sample <N>', 'rows to show before and after, from stored records', parseWholeFrom(1), null),
  {
    group: 'work',
    examples: [
      ['fillrate plan', 'all sources'],
      ['fillrate plan --sample 20', 'and what stored records would change in 20 rows'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],
    environment: [...SERVICE_VARIABLES, 'FILLRATE_WEBHOOK_SECRET', 'FILLRATE_PUBLIC_URL'],

    async handler(call) {
      const { limit, budget, where, route, sample } = call.flags
      const { stdout, signal } = call
      const { app, config } = await useApp(call)
      const sources = app.expandSourceNames(call.args[0])
      const plan = await explainWhereError(where, () =>
        app.plan({ sources, limit, budget: budget ?? undefined, where, route, sample, signal }),
      )
      const bulkOff = route === 'sync' ? null : app.bulk.reason
      printAnswer(call, {
        json: { ...plan, bulk: toBulkJson(app.bulk) },
        text: () =>
          renderPlan(plan, stdout, {
            budget: budget ?? mixedBudgetOf(config) ?? lookupBudgetOf(config),
            bulkOff,
          }),
      })
      await warnOfRefusal(app.db, call)
      return Exit.done
    },
  },
)

/** A run would end at once, or wait. */
async function warnOfRefusal(db: Database, { stderr }: Pick<CliCall, 'stderr'>): Promise<void> {
  const { tryWrite } = await import('../../store/connectivity.ts')
  const refused = describeRefusal(await tryWrite(db))
  if (refused !== null) stderr.line(`${stderr.paint('warn', `${refused.title}.`)} ${refused.action}`)
}
