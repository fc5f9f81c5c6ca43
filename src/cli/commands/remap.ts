import { Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { DRY_RUN_SAMPLE_ROWS } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { auditCommand, useApp } from '../settings.ts'
import type { RemapReport } from '../../actions/remap.ts'
import type { Output } from '../terminal.ts'
import { renderCounts } from '../views/layout.ts'
import { renderDryRun, renderReport, renderSkippedSection } from '../views/report.ts'
import { pluralize } from '../../util/text.ts'

export const remapCommand = defineCommand(
  createParser('remap')
    .summary('writes stored records again under a changed mapping; makes no call')
    .description(
      'Compares stored records with the current mapping and writes the differences: added columns, changed maps, a ' +
        'lower minConfidence. The write policies apply as in every run. Rows that were undone are written too. A ' +
        'remap is a run itself and can be undone.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .option('--dry-run', 'show what would be written, with a sample of rows, without writing it', false),
  {
    group: 'work',
    examples: [['fillrate remap contacts --dry-run', 'preview; then the same without --dry-run']],
    exits: [0, 1, 2, 3, 130],
    onInterrupt: FINISHING_MESSAGE,

    async handler(call) {
      const { stdout, stderr, signal, now } = call
      const { dryRun } = call.flags
      const [source] = call.args
      const { runExitCode } = await import('../../runs/report.ts')
      const { toAuditOutcome } = await import('../../actions/audit.ts')
      const { app, log } = await useApp(call)
      const onProgress = new ProgressView(stderr, log).countFrom(now, 'rows')
      const remapped = await auditCommand(
        app.db,
        dryRun ? null : { action: 'remap', parameters: { sources: [source] } },
        () => app.remap({ source, dryRun, sample: DRY_RUN_SAMPLE_ROWS, signal, onProgress }),
        ({ report }) => ({
          outcome: report === null ? 'done' : toAuditOutcome(report.status),
          detail: report?.reason ?? null,
          run: report?.run ?? null,
        }),
      )
      const { report, ...found } = remapped
      const ended = signal.aborted ? Exit.interrupted : Exit.done
      return {
        json: { ...report, ...found },
        text: () => renderRemap(remapped, stdout),
        exit: report === null ? ended : runExitCode(report),
      }
    },
  },
)

/** What a remap would write, or has written. */
function renderRemap(
  { source, examined, skipped_cells: skipped, columns, sample, report, dry_run: dry }: RemapReport,
  output: Output,
): string[] {
  const { paint } = output
  if (examined.rows === 0) return [`No row of ${source} has a stored record.`]
  const cells = pluralize(examined.cells, 'cell')
  const undone = examined.undone > 0 ? `; ${pluralize(examined.undone, 'row')} of them undone before` : ''
  return [
    ...(dry
      ? [
          `${paint('heading', 'Dry run:')} a remap of ${source} would have this result. Nothing was written.`,
          '',
        ]
      : []),
    ...renderCounts(
      output,
      [examined.rows, `rows of ${source} with a stored record`],
      [
        [examined.changed, `${dry ? 'would be written' : 'to write'}: ${cells}${undone}`],
        [examined.unchanged, 'unchanged'],
        [examined.below_confidence, 'below minConfidence'],
        [examined.inputs_changed, 'with changed inputs: the next run picks them'],
        [examined.row_missing, 'no longer in the source'],
      ],
    ),
    ...(dry
      ? [
          ...renderSkippedSection('Cells that would be skipped', skipped, output),
          ...renderDryRun({ columns, sample }, output),
        ]
      : []),
    ...(report === null || report.rows.picked === 0 ? [] : ['', ...renderReport(report, output)]),
  ]
}
