import { defineCommand, parser, SOURCES } from '../command.ts'
import { SERVICE } from '../environment-help.ts'
import { Exit } from '../exit-codes.ts'
import { wholeNumber } from '../options.ts'
import { limit, lookupBudget, route, where } from '../picking.ts'
import { writeJson } from '../render/json.ts'
import { planLines } from '../render/plan.ts'
import { withApp } from '../settings.ts'
import { blamingWhere } from '../where.ts'

export const plan = defineCommand(
  parser('plan')
    .summary('what a run would ask and cost; writes nothing and calls nothing')
    .description(
      'Goes through the same steps as a run, up to the first call: rows, distinct lookups, those that are answered ' +
        'already, calls by route, cost and time.',
    )
    .argument(...SOURCES)
    .addOption(limit)
    .addOption(lookupBudget)
    .addOption(where)
    .addOption(route)
    .addOption(
      wholeNumber(
        '--sample <N>',
        'rows to show before and after, out of those whose records are stored already',
        1,
        null,
      ),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate plan', 'everything'],
      ['fillrate plan --sample 20', 'and what stored records would put into 20 rows'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],
    environment: [...SERVICE, 'FILLRATE_WEBHOOK_SECRET', 'FILLRATE_PUBLIC_URL'],

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [sources] = args
      const { stdout, signal } = context
      return withApp(invocation, context, async (app, { config }) => {
        const made = await blamingWhere(flags.where, () =>
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
        if (flags.json) writeJson(stdout, { ...made, bulk: app.bulk })
        else {
          const bulkOff = flags.route === 'sync' ? null : app.bulk.reason
          const budget = flags.budget ?? config.budget
          for (const line of planLines(made, stdout, { budget, bulkOff })) stdout.line(line)
        }
        return Exit.done
      })
    },
  },
)
