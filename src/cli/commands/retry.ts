import { pluralize } from '../../util/format.ts'
import { FAILED_ROW_STATES, RETRY_STATES, type RetryState, UNDONE_NOTE } from '../../domain/row.ts'
import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { formatChoices, parseText, statesOption } from '../options.ts'
import { renderRetry } from '../views/retry.ts'
import { auditCommand, useApp } from '../settings.ts'

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
        `rows in these states: ${formatChoices(RETRY_STATES)}; default: all but ${UNDONE_NOTE}`,
        RETRY_STATES,
        FAILED_ROW_STATES as readonly RetryState[],
      ),
    )
    .option('--reason <TEXT>', 'rows whose reason contains this text, ignoring case', parseText, null)
    .option('--dry-run', 'count the rows without queueing them', false),
  {
    group: 'work',
    examples: [
      ['fillrate retry contacts --reason "unique conflict"', 'after resolving the conflict'],
      ['fillrate retry --state undone', 'rows that were undone'],
    ],

    async handler(call) {
      const [sources] = call.args
      const { state: states, reason, dryRun } = call.flags
      const { app } = await useApp(call)
      const report = await auditCommand(
        app.db,
        dryRun ? null : { action: 'retry', parameters: { sources, states, reason } },
        () => app.retry({ sources, states, reason, dryRun, signal: call.signal }),
        ({ rows }) => ({ outcome: 'done', detail: `${pluralize(rows, 'row')} queued` }),
      )
      return { json: report, text: () => renderRetry(report, call.stdout) }
    },
  },
)
