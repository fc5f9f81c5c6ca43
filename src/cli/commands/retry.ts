import { pluralize } from '../../util/format.ts'
import { FAILED_ROW_STATES, RETRY_STATES, type RetryState } from '../../domain/row.ts'
import { DATABASE_VARIABLES, Exit, SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { booleanOption, formatChoices, statesOption, textOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { renderRetry } from '../views/retry.ts'
import { withApp } from '../settings.ts'

export const retryCommand = defineCommand(
  createParser('retry')
    .summary('queues failed rows again for the next run')
    .description(
      'Makes failed rows due, so that the next run picks them. A row with a stored record is written without a ' +
        'call; a failed lookup is requested again. This command itself makes no call and writes nothing to your ' +
        'tables. Use --state undone for rows whose write was undone.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(
      statesOption(
        '--state <STATE,…>',
        `rows in these states: ${formatChoices(RETRY_STATES)}; default: the first three`,
        RETRY_STATES,
        FAILED_ROW_STATES as readonly RetryState[],
      ),
    )
    .addOption(textOption('--reason <TEXT>', 'rows whose reason contains this text, ignoring case'))
    .addOption(booleanOption('--dry-run', 'count the rows without queueing them')),
  {
    group: 'work',
    examples: [
      ['fillrate retry contacts --reason "unique conflict"', 'after resolving the conflict'],
      ['fillrate retry --state undone', 'rows that were undone'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const { stdout, signal } = context
      return withApp(invocation, context, async (app) => {
        const { state, reason, dryRun } = flags
        const retry = () => app.retry({ sources: args[0], states: state, reason, dryRun, signal })
        const { auditAction, createLocalActor } = await import('../../actions/audit.ts')
        const report = dryRun
          ? await retry()
          : await auditAction(
              app.db,
              {
                actor: createLocalActor('command line'),
                action: 'retry',
                parameters: { sources: args[0], states: state, reason },
              },
              retry,
              ({ rows }) => ({ outcome: 'done', detail: `${pluralize(rows, 'row')} queued` }),
            )
        if (flags.json) writeJson(stdout, report)
        else stdout.lines(renderRetry(report, stdout))
        return Exit.done
      })
    },
  },
)
