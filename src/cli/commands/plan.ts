import {
  type Context,
  Exit,
  SERVICE_VARIABLES,
  SOURCES_ARGUMENT,
  createParser,
  defineCommand,
} from '../command.ts'
import { budgetOption, limitOption, routeOption, whereOption, wholeNumberOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { toBulkJson } from '../json.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import type { Database } from '../../store/open.ts'
import { renderPlan } from '../views/plan.ts'
import { explainWhereError, withApp } from '../settings.ts'

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
      wholeNumberOption('--sample <N>', 'rows to show before and after, from stored records', 1, null),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate plan', 'all sources'],
      ['fillrate plan --sample 20', 'and what stored records would change in 20 rows'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],
    environment: [...SERVICE_VARIABLES, 'FILLRATE_WEBHOOK_SECRET', 'FILLRATE_PUBLIC_URL'],

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [sources] = args
      const { stdout, signal } = context
      return withApp(invocation, context, async (app, { config }) => {
        const made = await explainWhereError(flags.where, () =>
          app.plan({
            sources,
            limit: flags.limit,
            budget: flags.budget ?? undefined,
            where: flags.where,
            route: flags.route,
            sample: flags.sample,
            signal,
          }),
        )
        if (flags.json) writeJson(stdout, { ...made, bulk: toBulkJson(app.bulk) })
        else {
          const bulkOff = flags.route === 'sync' ? null : app.bulk.reason
          const budget = flags.budget ?? config.budget
          stdout.lines(renderPlan(made, stdout, { budget, bulkOff }))
        }
        await warnOfRefusal(app.db, context)
        return Exit.done
      })
    },
  },
)

/** A run would end at once, or wait. */
async function warnOfRefusal(db: Database, { stderr }: Pick<Context, 'stderr'>): Promise<void> {
  const { tryWrite } = await import('../../store/connectivity.ts')
  const refused = describeRefusal(await tryWrite(db))
  if (refused !== null) stderr.line(`${stderr.paint('warn', `${refused.title}.`)} ${refused.action}`)
}
