import { confirm, mustConfirm, yesOption } from '../confirm.ts'
import { pluralize } from '../../util/format.ts'
import { DATABASE_VARIABLES, Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { booleanOption, parseRunNumber } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderUndo } from '../views/undo.ts'
import { withApp } from '../settings.ts'

export const undoCommand = defineCommand(
  createParser('undo')
    .summary("reverts a run's writes, except values changed since")
    .description(
      'Restores the previous value of each cell that a run has written. Values changed since then are kept and ' +
        'listed. An undo is a run itself and can be undone. If interrupted, run the same command again. The rows are ' +
        'not written again until their inputs change, their refresh is due, or `fillrate retry --state undone` queues ' +
        'them. On a terminal it shows the numbers first, and writes after a confirmation; elsewhere it needs --yes.',
    )
    .argument('<RUN>', 'the number of a run; `fillrate runs` lists them', parseRunNumber)
    .addOption(booleanOption('--dry-run', 'show what would be restored without writing it'))
    .addOption(yesOption),
  {
    group: 'work',
    examples: [['fillrate undo 12 --dry-run', 'preview; then the same without --dry-run']],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { stdout, stderr, signal, now } = context
      const [run] = invocation.args
      const isAsked = !invocation.flags.dryRun && mustConfirm(invocation, context)
      const { undoExitCode } = await import('../../actions/undo/report.ts')
      return withApp(invocation, context, async (app, { log }) => {
        const view = new ProgressView(stderr, stderr.isTTY ? null : log)
        const startedAt = now()
        try {
          const undo = (dryRun: boolean) =>
            app
              .undo({
                run,
                dryRun,
                signal,
                onProgress: (done, all) => view.showCount(done, all, 'writes', now() - startedAt),
              })
              .finally(() => view.end())
          const preview = isAsked ? await undo(true) : null
          if (preview !== null && preview.changes.restored > 0) {
            stdout.lines(renderUndo(preview, stdout, { isQuestion: true }))
            const question = `Restore ${pluralize(preview.changes.restored, 'row')}?`
            if (!(await confirm(question, context))) {
              stdout.line('Nothing was changed.')
              return signal.aborted ? Exit.interrupted : Exit.failed
            }
          }
          const { auditAction, createLocalActor, toAuditOutcome } = await import('../../actions/audit.ts')
          const report = invocation.flags.dryRun
            ? await undo(true)
            : await auditAction(
                app.db,
                { actor: createLocalActor('command line'), action: 'undo', parameters: { of_run: run } },
                () => undo(false),
                (done) => ({
                  outcome: toAuditOutcome(done.status),
                  detail: `${done.changes.restored} of ${done.changes.total} writes reverted`,
                  run: done.run,
                }),
              )
          if (invocation.flags.json) writeJson(stdout, report)
          else stdout.lines(renderUndo(report, stdout))
          return undoExitCode(report)
        } finally {
          view.end()
        }
      })
    },
  },
)
