import { Exit, FINISHING_MESSAGE, createParser, chooseSampleRows, defineCommand } from '../command.ts'
import { dryRunSampleOption } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { renderRemap } from '../views/remap.ts'
import { auditCommand, useApp } from '../settings.ts'

export const remapCommand = defineCommand(
  createParser('remap')
    .summary('writes stored records again under a changed mapping; makes no call')
    .description(
      'Compares stored records with the current mapping and writes the differences: added columns, changed maps, a ' +
        'lower minConfidence. The write policies apply as in every run. Rows that were undone are written too. A ' +
        'remap is a run itself and can be undone.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .option('--dry-run', 'show what would be written, with a sample of rows, without writing it', false)
    .addOption(dryRunSampleOption),
  {
    group: 'work',
    examples: [['fillrate remap contacts --dry-run', 'preview; then the same without --dry-run']],
    exits: [0, 1, 2, 3, 130],
    onInterrupt: FINISHING_MESSAGE,

    async handler(call) {
      const { stdout, stderr, signal, now } = call
      const { dryRun } = call.flags
      const [source] = call.args
      const sample = chooseSampleRows(call)
      const { runExitCode } = await import('../../runs/report.ts')
      const { toAuditOutcome } = await import('../../actions/audit.ts')
      const { app, log } = await useApp(call)
      const view = new ProgressView(stderr, stderr.isTTY ? null : log)
      const startedAt = now()
      const onProgress = (done: number, all: number): void =>
        view.showCount(done, all, 'rows', now() - startedAt)
      const remapped = await auditCommand(
        app.db,
        dryRun ? null : { action: 'remap', parameters: { sources: [source] } },
        () => app.remap({ source, dryRun, sample, signal, onProgress }),
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
