import { FAILED_ROW_STATES, RETRY_STATES, type RetryState } from '../../domain/row.ts'
import { DATABASE_VARIABLES, Exit, SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { booleanOption, formatChoices, statesOption, textOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { renderRetry } from '../views/retry.ts'
import { withApp } from '../settings.ts'

export const retryCommand = defineCommand(
  createParser('retry')
    .summary('makes failed rows due, and only those: the next run picks them')
    .description(
      'Makes rows that failed due, so that the next run picks them. A row whose answer is stored is then written from it ' +
        'without a call; a lookup that failed itself is asked again. Asks and writes nothing by itself. With --state undone ' +
        'it is rows whose write an undo has taken back.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(
      statesOption(
        '--state <STATE,…>',
        `only these: ${formatChoices(RETRY_STATES)}; default: the first three`,
        RETRY_STATES,
        FAILED_ROW_STATES as readonly RetryState[],
      ),
    )
    .addOption(textOption('--reason <TEXT>', 'only rows with this in their reason, in any case'))
    .addOption(booleanOption('--dry-run', 'counts them, and makes nothing due')),
  {
    group: 'work',
    examples: [
      ['fillrate retry contacts --reason "unique conflict"', 'after the conflict is solved'],
      ['fillrate retry --state undone', 'what an undo has taken back'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const { stdout, signal } = context
      return withApp(invocation, context, async (app) => {
        const { state, reason, dryRun } = flags
        const report = await app.retry({ sources: args[0], states: state, reason, dryRun, signal })
        if (flags.json) writeJson(stdout, report)
        else for (const line of renderRetry(report, stdout)) stdout.line(line)
        return Exit.done
      })
    },
  },
)
