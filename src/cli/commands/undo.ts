import type { UndoReport } from '../../actions/undo/report.ts'
import type { App } from '../../app.ts'
import { confirm, mustConfirm, yesOption } from '../confirm.ts'
import { pluralize } from '../../util/format.ts'
import {
  type Context,
  DATABASE_VARIABLES,
  Exit,
  FINISHING_MESSAGE,
  createParser,
  defineCommand,
} from '../command.ts'
import { booleanOption, parseRunNumber } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderUndo } from '../views/undo.ts'
import { type Settings, withApp } from '../settings.ts'

export const undoCommand = defineCommand(
  createParser('undo')
    .summary('reverts the writes of runs, except values changed since')
    .description(
      'Restores the previous value of each cell that a run has written. Values changed since then are kept and ' +
        'listed. An undo is a run itself and can be undone. If interrupted, run the same command again. The rows are ' +
        'not written again until their inputs change, their refresh is due, or `fillrate retry --state undone` queues ' +
        'them. On a terminal it shows the numbers first, and writes after a confirmation; elsewhere it needs --yes.',
    )
    .argument(
      '<RUN...>',
      'numbers of runs, undone from the newest to the oldest; `fillrate runs` lists them',
      (word: string, before: readonly number[] | undefined): number[] => [
        ...(before ?? []),
        parseRunNumber(word),
      ],
    )
    .addOption(booleanOption('--dry-run', 'show what would be restored without writing it'))
    .addOption(yesOption),
  {
    group: 'work',
    examples: [
      ['fillrate undo 12 --dry-run', 'preview; then the same without --dry-run'],
      ['fillrate undo 12 13 14', 'three runs, the newest first'],
    ],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, signal } = context
      // Of two runs that wrote a cell, the later one wrote over what the earlier one left.
      const runs = [...new Set(invocation.args[0])].toSorted((a, b) => b - a)
      const isAsked = !flags.dryRun && mustConfirm(invocation, context)
      const { undoExitCode } = await import('../../actions/undo/report.ts')
      const { findEndedRun } = await import('../../actions/undo/undo.ts')
      return withApp(invocation, context, async (app, { log }) => {
        const reports: UndoReport[] = []
        // A number that is wrong undoes none of them.
        for (const run of runs) await findEndedRun(app.db, run)
        for (const run of runs) {
          if (signal.aborted) break
          const report = await undoOne(run, { dryRun: flags.dryRun, isAsked }, context, app, log)
          if (report === null) {
            stdout.line(
              reports.length === 0
                ? 'Nothing was changed.'
                : `Nothing of run ${run} and older ones was changed.`,
            )
            return signal.aborted ? Exit.interrupted : Exit.failed
          }
          reports.push(report)
          if (!flags.json) stdout.lines(renderUndo(report, stdout))
        }
        const [first] = reports
        if (flags.json) writeJson(stdout, runs.length === 1 && first ? first : { undos: reports })
        if (reports.length < runs.length) return Exit.interrupted
        // The first code that says that something is left.
        return reports.map(undoExitCode).find((code) => code !== Exit.done) ?? Exit.done
      })
    },
  },
)

/** Undoes one run, with its own question on a terminal. @returns null if the question was denied */
async function undoOne(
  run: number,
  { dryRun, isAsked }: { readonly dryRun: boolean; readonly isAsked: boolean },
  context: Context,
  app: App,
  log: Settings['log'],
): Promise<UndoReport | null> {
  const { stdout, stderr, signal, now } = context
  const view = new ProgressView(stderr, stderr.isTTY ? null : log)
  const startedAt = now()
  const undo = (isPreview: boolean): Promise<UndoReport> =>
    app
      .undo({
        run,
        dryRun: isPreview,
        signal,
        onProgress: (done, all) => view.showCount(done, all, 'writes', now() - startedAt),
      })
      .finally(() => view.end())
  if (dryRun) return undo(true)
  const preview = isAsked ? await undo(true) : null
  if (preview !== null && preview.changes.restored > 0) {
    stdout.lines(renderUndo(preview, stdout, { isQuestion: true }))
    const question = `Restore ${pluralize(preview.changes.restored, 'row')}?`
    if (!(await confirm(question, context))) return null
  }
  const { auditAction, createLocalActor, toAuditOutcome } = await import('../../actions/audit.ts')
  return auditAction(
    app.db,
    { actor: createLocalActor('command line'), action: 'undo', parameters: { of_run: run } },
    () => undo(false),
    (done) => ({
      outcome: toAuditOutcome(done.status),
      detail: `${done.changes.restored} of ${done.changes.total} writes reverted`,
      run: done.run,
    }),
  )
}
