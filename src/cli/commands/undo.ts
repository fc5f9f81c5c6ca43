import type { UndoReport } from '../../actions/undo/report.ts'
import { mustConfirm, requireConfirmation, yesOption } from '../confirm.ts'
import { pluralize, formatCount, formatDuration } from '../../util/format.ts'
import { type CliCall, Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { parseRunNumber } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { type Output, wrapText } from '../terminal.ts'
import { auditCommand, useApp } from '../settings.ts'
import { type Suggestion, compact, renderCounts, renderSuggestions } from '../views/layout.ts'
import { SOURCE_COLUMN, renderKeyedRows, renderTable } from '../views/table.ts'
import { renderLeftOut } from '../views/report.ts'

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
      const isAsked = mustConfirm(call)
      const { undoExitCode } = await import('../../actions/undo/report.ts')
      const { findEndedRun } = await import('../../actions/undo/undo.ts')
      const opened = await useApp(call, { opensUnreviewed: true })
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
      // The first code that says that something is left.
      const left = reports.map(undoExitCode).find((code) => code !== Exit.done)
      return {
        json: runs.length === 1 && first ? first : { undos: reports },
        text: () => [],
        exit: reports.length < runs.length ? Exit.interrupted : (left ?? Exit.done),
      }
    },
  },
)

/** Undoes one run, with its own question on a terminal. @throws DeniedError with the text of `denied` */
async function undoOne(
  run: number,
  { dryRun, denied }: { readonly dryRun: boolean; readonly denied: string | null },
  call: CliCall,
  { app, log }: Awaited<ReturnType<typeof useApp>>,
): Promise<UndoReport> {
  const { stdout, stderr, signal, now } = call
  const view = new ProgressView(stderr, log)
  const onProgress = view.countFrom(now, 'writes')
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

/**
 * What was restored, what was not and why, and the next commands.
 * @param options.isQuestion the preview above a question, which takes the place of the next commands
 */
function renderUndo(
  report: UndoReport,
  output: Output,
  { isQuestion = false }: { readonly isQuestion?: boolean } = {},
): string[] {
  const { changes, undoes } = report
  if (changes.total === 0) return [`Run ${undoes} has written nothing.`]
  const { restored, kept, row_missing, rejected, undone_before, not_configured, remaining } = changes
  const failed = report.failed.filter((row) => row.outcome === 'rejected')
  const verb = report.writes_again ? 'written again' : 'restored'
  return [
    ...wrapText(formatHeadline(report, output, isQuestion), output.textColumns),
    ...renderLeftOut(report.left_out, output),
    '',
    ...renderCounts(
      output,
      [changes.total, `writes of run ${undoes}`],
      [
        [restored, report.dry_run ? `would be ${verb}` : verb],
        [undone_before, `undone before${byRuns(report.undone_by)}`],
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
    ...renderColumns(report, output),
    ...renderKeyedRows(output, `${pluralize(report.kept.length, 'row')} with kept values`, report.kept, [
      { title: 'columns', text: (row) => row.columns.join(', '), minColumns: 10 },
      { title: 'changed since', text: describeKept },
    ]),
    ...renderKeyedRows(output, `${pluralize(failed.length, 'row')} that could not be restored`, failed, [
      { title: 'reason', text: (row) => row.reason ?? '', minColumns: 12 },
    ]),
    ...(isQuestion ? [] : renderSuggestions(output, suggestAfterUndo(report))),
  ]
}

function formatHeadline(
  { run, undoes, writes_again: again, dry_run: dry, status, duration_ms: ms }: UndoReport,
  { paint }: Output,
  isQuestion: boolean,
): string {
  const what = `${again ? 'undo ' : ''}run ${undoes}`
  if (isQuestion) return `Undoing ${what} has this result:`
  if (dry)
    return `${paint('heading', 'Dry run:')} undoing ${what} would have this result. Nothing was written.`
  if (run === null) return `Nothing left to undo of ${what}.`
  const ended = status === 'interrupted' ? paint('warn', 'was interrupted undoing') : paint('good', 'undid')
  return `${paint('heading', `Run ${run}`)} ${ended} ${what} ${status === 'interrupted' ? 'after' : 'in'} ${formatDuration(ms)}`
}

const byRuns = (runs: readonly number[]): string =>
  runs.length === 0 ? '' : `, by run ${runs.slice(0, 5).join(', ')}${runs.length > 5 ? ', …' : ''}`

function renderColumns({ columns, cells, dry_run: dry }: UndoReport, output: Output): string[] {
  if (columns.length === 0) return []
  const restored = dry ? 'would be restored' : 'restored'
  return compact([
    '',
    ...renderTable(output, columns, [
      { ...SOURCE_COLUMN, ifDifferent: true },
      { title: 'column', text: (one) => one.column, minColumns: 8 },
      { title: restored, text: (one) => formatCount(one.restored), number: true },
      { title: 'kept', text: (one) => (one.kept === 0 ? '' : formatCount(one.kept)), number: true },
    ]),
    cells.touched > 0 && output.paint('quiet', `and ${pluralize(cells.touched, 'cell')} of touched columns`),
  ])
}

function describeKept({ written_by: run, inputs_changed: isOther }: UndoReport['kept'][number]): string {
  if (isOther) return 'the row has other inputs'
  return run === null ? 'outside Fillrate' : `by run ${run}`
}

/** The commands that deal with what an undo has left. */
function suggestAfterUndo(report: UndoReport): Suggestion[] {
  const { run, undoes, changes, dry_run: dry, waiting, kept, writes_again: again, undone_by: before } = report
  const later = kept.reduce((latest, row) => Math.max(latest, row.written_by ?? 0), 0)
  const undo = run ?? before.at(-1)
  return [
    dry && changes.restored > 0 && [`fillrate undo ${undoes}`, 'writes this'],
    (changes.remaining > 0 || (changes.rejected > 0 && !dry)) && [
      `fillrate undo ${undoes}`,
      changes.remaining > 0
        ? 'continues with the rest'
        : 'retries the rest, once the database accepts the previous values',
    ],
    later > 0 && [
      `fillrate undo ${later}`,
      'undoes the later run that wrote some of the kept cells; do this first',
    ],
    !dry &&
      undo !== undefined && [
        `fillrate undo ${undo}`,
        again ? 'undoes it again' : 'writes the values again: an undo can be undone',
      ],
    run !== null &&
      !again && [
        'fillrate retry --state undone',
        'lets the next run write these rows again; otherwise they keep their values until their inputs change or a refresh is due',
      ],
    waiting > 0 && [
      'fillrate status',
      `${pluralize(waiting, 'row')} of run ${undoes} still waiting; they will be written when results arrive`,
    ],
  ]
}
