import type { UndoReport } from '../../actions/undo/undo.ts'
import { pluralize, formatDuration } from '../../util/text.ts'
import { FINISHING_MESSAGE, createParser, defineCommand, requireYes } from '../command.ts'
import { parseRunNumber, yesOption } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { wrapText, type Output } from '../terminal.ts'
import { auditCommand, useApp } from '../settings.ts'
import { renderCounts, renderText } from '../views/layout.ts'
import { renderKeyedRows } from '../views/table.ts'
import { renderLeftOut } from '../views/report.ts'

export const undoCommand = defineCommand(
  createParser('undo')
    .summary('reverts the writes of a run, except values changed since')
    .description(
      'Restores the previous value of each cell that a run has written. Values changed since then are kept and ' +
        'listed. An undo is a run itself and can be undone. If interrupted, run the same command again. The rows ' +
        'are not written again until their inputs change, their refresh is due, or `fillrate retry --state undone` ' +
        'queues them.',
    )
    .argument('<RUN>', 'the number of a run; `fillrate runs` lists them', parseRunNumber)
    .option('--dry-run', 'show what would be restored without writing it', false)
    .addOption(yesOption),
  {
    group: 'work',
    examples: [['fillrate undo 12 --dry-run', 'preview; then `fillrate undo 12 --yes`']],
    exits: [0, 1, 2, 3, 130],
    onInterrupt: FINISHING_MESSAGE,

    async handler(call) {
      const { stdout, stderr, signal, now } = call
      const { dryRun } = call.flags
      const [run] = call.args
      requireYes(call)
      const { undoExitCode } = await import('../../actions/undo/undo.ts')
      const { toAuditOutcome } = await import('../../actions/audit.ts')
      const { app, log } = await useApp(call, { opensUnreviewed: true })
      const view = new ProgressView(stderr, log)
      const onProgress = view.countFrom(now, 'writes')
      const report = await auditCommand(
        app.db,
        dryRun ? null : { action: 'undo', parameters: { of_run: run } },
        () => app.undo({ run, dryRun, signal, onProgress }).finally(() => view.end()),
        (done) => ({
          outcome: toAuditOutcome(done.status),
          detail: `${done.changes.restored} of ${done.changes.total} writes reverted`,
          run: done.run,
        }),
      )
      return { json: report, text: () => renderUndo(report, stdout), exit: undoExitCode(report) }
    },
  },
)

/** What was restored, what was not and why. */
function renderUndo(report: UndoReport, output: Output): string[] {
  const { changes, undoes } = report
  if (changes.total === 0) return [`Run ${undoes} has written nothing.`]
  const { restored, kept, row_missing, rejected, undone_before, not_configured, remaining } = changes
  const failed = report.failed.filter((row) => row.outcome === 'rejected')
  const verb = report.writes_again ? 'written again' : 'restored'
  return [
    ...wrapText(formatHeadline(report, output), output.textColumns),
    ...renderLeftOut(report.left_out, output),
    '',
    ...renderCounts(
      output,
      [changes.total, `writes of run ${undoes}`],
      [
        [restored, report.dry_run ? `would be ${verb}` : verb],
        [undone_before, 'undone before'],
        [kept, 'kept: every cell, or what the row is about, was changed since'],
        [row_missing, 'skipped: the row was deleted'],
        [rejected, 'failed: the database rejected the previous values'],
        [not_configured, 'skipped: the source is no longer configured'],
        [
          remaining,
          report.status === 'interrupted'
            ? 'not processed yet'
            : `postponed: the row is locked by another transaction${report.left_out.length > 0 ? ', or its source is left out' : ''}`,
        ],
      ],
    ),
    ...renderKeyedRows(output, `${pluralize(report.kept.length, 'row')} with kept values`, report.kept, [
      { title: 'columns', text: (row) => row.columns.join(', '), minColumns: 10 },
      { title: 'changed since', text: describeKept },
    ]),
    ...renderKeyedRows(output, `${pluralize(failed.length, 'row')} that could not be restored`, failed, [
      { title: 'reason', text: (row) => row.reason ?? '', minColumns: 12 },
    ]),
    ...(report.waiting > 0
      ? renderText(output, `${pluralize(report.waiting, 'row')} of run ${undoes} still waiting for results.`)
      : []),
  ]
}

function formatHeadline(
  { run, undoes, writes_again: again, dry_run: dry, status, duration_ms: ms }: UndoReport,
  { paint }: Output,
): string {
  const what = `${again ? 'undo ' : ''}run ${undoes}`
  if (dry)
    return `${paint('heading', 'Dry run:')} undoing ${what} would have this result. Nothing was written.`
  if (run === null) return `Nothing left to undo of ${what}.`
  const ended = status === 'interrupted' ? paint('warn', 'was interrupted undoing') : paint('good', 'undid')
  return `${paint('heading', `Run ${run}`)} ${ended} ${what} ${status === 'interrupted' ? 'after' : 'in'} ${formatDuration(ms)}`
}

function describeKept({ written_by: run, inputs_changed: isOther }: UndoReport['kept'][number]): string {
  if (isOther) return 'the row has other inputs'
  return run === null ? 'outside Fillrate' : `by run ${run}`
}
