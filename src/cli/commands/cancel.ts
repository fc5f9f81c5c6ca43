import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { parseRunNumber } from '../options.ts'
import { withDatabase } from '../settings.ts'
import { writeJson } from '../terminal.ts'
import { renderCancel } from '../views/cancel.ts'

/** Longer than a call of the service may take. */
const WAIT_MS = 60_000

export const cancelCommand = defineCommand(
  createParser('cancel')
    .summary('cancels a run of any process')
    .description(
      'The process of the run stops taking work within seconds, finishes what is under way, and ends the run as ' +
        'interrupted, with who cancelled it. Nothing is lost: rows that still wait are left to the next run. A ' +
        'scheduled run is not started again before its next time. Live sync opens a new run for later changes; ' +
        '`fillrate pause` stops it. Waits up to a minute for the end of the run.',
    )
    .argument('<RUN>', 'the number of a run; `fillrate runs --state running` lists them', parseRunNumber),
  {
    group: 'work',
    examples: [['fillrate cancel 12', '']],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: 'no longer waiting for the end of the run, which stays cancelled',

    async handler({ args: [run], flags }, context) {
      const { stdout, stderr, signal } = context
      const { cancelRun } = await import('../../actions/cancel.ts')
      const { auditAction, createLocalActor } = await import('../../actions/audit.ts')
      const actor = createLocalActor('command line')
      const report = await withDatabase(context, (db) =>
        auditAction(
          db,
          { actor, action: 'cancel', parameters: {}, run },
          () =>
            cancelRun(db, {
              run,
              by: actor.name,
              waitMs: WAIT_MS,
              signal,
              onCancelled: () => stderr.live([`Run ${run} is cancelled and finishes what is under way`]),
            }).finally(() => stderr.live([])),
          ({ state, reason }) => ({
            outcome: 'done',
            detail: state === 'running' ? 'it finishes what is under way' : reason,
          }),
        ),
      )
      if (flags.json) writeJson(stdout, report)
      else stdout.lines(renderCancel(report, stdout))
      if (report.state !== 'running') return Exit.done
      return signal.aborted ? Exit.interrupted : Exit.open
    },
  },
)
