import { pluralize } from '../../util/text.ts'
import { FAILED_ROW_STATES, RETRY_STATES, type RetryState } from '../../domain/row.ts'
import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { formatChoices, parseText, statesOption } from '../options.ts'
import { auditCommand, useApp } from '../settings.ts'
import type { RetryReport } from '../../actions/retry.ts'
import type { Output } from '../terminal.ts'
import { renderFields } from '../views/layout.ts'

export const retryCommand = defineCommand(
  createParser('retry')
    .summary('queues failed rows again for the next run')
    .description(
      'Makes failed rows due, so that the next run picks them. A row with a stored record is written without a ' +
        'call; a failed lookup is requested again.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(
      statesOption(
        '--state <STATE,…>',
        `rows in these states: ${formatChoices(RETRY_STATES)}; default: ${FAILED_ROW_STATES.join(', ')}`,
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
      ['fillrate retry --state emptied', 'rows that a person has emptied, from their stored records'],
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

/** The queued rows, and their cost. */
function renderRetry(report: RetryReport, output: Output): string[] {
  const { paint } = output
  const { rows, lookups, without_call: free, skipped, dry_run: dry } = report
  const left = skipped === 0 ? '' : `${pluralize(skipped, 'row')} complete, or no longer in the source`
  if (rows === 0)
    return [`${paint('good', '✓')} No failed rows to retry.${left === '' ? '' : ` Skipped: ${left}.`}`]
  return [
    paint('heading', `${pluralize(rows, 'row')} ${dry ? 'would be' : rows === 1 ? 'is' : 'are'} due`),
    ...renderFields(output, [
      ['To look up', lookups === 0 ? 'none' : pluralize(lookups, 'lookup')],
      ['Without a call', free === 0 ? 'none' : `${pluralize(free, 'row')} with a stored record`],
      left !== '' && ['Skipped', left],
    ]),
  ]
}
