import type { UndoReport } from '../../actions/undo/report.ts'
import { mustConfirm, requireConfirmation, yesOption } from '../confirm.ts'
import { pluralize } from '../../util/format.ts'
import { type CliCall, Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { parseRunNumber } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderUndo } from '../views/undo.ts'
import { auditCommand, useApp } from '../settings.ts'

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
    .option('--dry-run', 'show what would be restored without writing it', false)
    .addOption(yesOption),
  {
    group: 'work',
    examples: [
      ['fillrate undo 12 --dry-run', 'preview; then the same without --dry-run'],
      ['fillrate undo 12 13 14', 'three runs, the newest first'],
    ],
    exits: [0, 1, 2, 3, 130],
    onInterrupt: FINISHING_MESSAGE,

    async handler(call) {
      const { stdout, signal } = call
      const { dryRun, json } = call.flags
      // Of two runs that wrote a cell, the later one wrote over what the earlier one left.
      const runs = [...new Set(call.args[0])].toSorted((a, b) => b - a)
      const isAsked = !dryRun && mustConfirm(call)
      const { undoExitCode } = await import('../../actions/undo/report.ts')
      const { findEndedRun } = await import('../../actions/undo/undo.ts')
      const opened = await useApp(call)
      const reports: UndoReport[] = []
      // A number that is wrong undoes none of them.
      for (const run of runs) await findEndedRun(opened.app.db, run)
      for (const run of runs) {
        if (signal.aborted) break
        const what = reports.length === 0 ? 'Nothing' : `Nothing of run ${run} and older ones`
        const denied = isAsked ? `${what} was changed.` : null
        const report = await undoOne(run, { dryRun, denied }, call, opened)
        reports.push(report)
        if (!json) stdout.lines(renderUndo(report, stdout))
      }
      const [first] = reports
      if (json) writeJson(stdout, runs.length === 1 && first ? first : { undos: reports })
      if (reports.length < runs.length) return Exit.interrupted
      // The first code that says that something is left.
      return reports.map(undoExitCode).find((code) => code !== Exit.done) ?? Exit.done
    },
  },
)

/** Undoes one run, with its own question on a terminal. @throws DeniedError with the text of `denied` */
async function undoOne(
  run: number,
  { dryRun, denied }: { readonly dryRun: boolean; readonly denied: string | null },
  call: Pick<CliCall, 'stdin' | 'stdout' | 'stderr' | 'signal' | 'now'>,
  { app, log }: Awaited<ReturnType<typeof useApp>>,
): Promise<UndoReport> {
  const { stdout, stderr, signal, now } = call
  const view = new ProgressView(stderr, stderr.isTTY ? null : log)
  const startedAt = now()
  const onProgress = (done: number, all: number): void =>
    view.showCount(done, all, 'writes', now() - startedAt)
  const undo = (isPreview: boolean): Promise<UndoReport> =>
    app.undo({ run, dryRun: isPreview, signal, onProgress }).finally(() => view.end())
  const preview = denied === null ? null : await undo(true)
  if (preview !== null && denied !== null && preview.changes.restored > 0) {
    stdout.lines(renderUndo(preview, stdout, { isQuestion: true }))
    await requireConfirmation(`Restore ${pluralize(preview.changes.restored, 'row')}?`, call, denied)
  }
  const { toAuditOutcome } = await import('../../actions/audit.ts')
  return auditCommand(
    app.db,
    dryRun ? null : { action: 'undo', parameters: { of_run: run } },
    () => undo(dryRun),
    (done) => ({
      outcome: toAuditOutcome(done.status),
      detail: `${done.changes.restored} of ${done.changes.total} writes reverted`,
      run: done.run,
    }),
  )
}
