import {
  DATABASE_VARIABLES,
  Exit,
  FINISHING_MESSAGE,
  createParser,
  chooseSampleRows,
  defineCommand,
} from '../command.ts'
import { booleanOption, dryRunSampleOption } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderRemap } from '../views/remap.ts'
import { withApp } from '../settings.ts'

export const remapCommand = defineCommand(
  createParser('remap')
    .summary('writes stored records again under a changed mapping; makes no call')
    .description(
      'Compares stored records with the current mapping and writes the differences: added columns, changed maps, a ' +
        'lower minConfidence. The write policies apply as in every run. Rows that were undone are written too. A ' +
        'remap is a run itself and can be undone.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .addOption(
      booleanOption('--dry-run', 'show what would be written, with a sample of rows, without writing it'),
    )
    .addOption(dryRunSampleOption),
  {
    group: 'work',
    examples: [['fillrate remap contacts --dry-run', 'preview; then the same without --dry-run']],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { stdout, stderr, signal, now } = context
      const { dryRun, json } = invocation.flags
      const [source] = invocation.args
      const sample = chooseSampleRows(invocation)
      const { runExitCode } = await import('../../runs/report.ts')
      return withApp(invocation, context, async (app, { log }) => {
        const view = new ProgressView(stderr, stderr.isTTY ? null : log)
        const startedAt = now()
        try {
          const remap = () =>
            app.remap({
              source,
              dryRun,
              sample,
              signal,
              onProgress: (done, all) => view.showCount(done, all, 'rows', now() - startedAt),
            })
          const { auditAction, createLocalActor, toAuditOutcome } = await import('../../actions/audit.ts')
          const remapped = dryRun
            ? await remap()
            : await auditAction(
                app.db,
                {
                  actor: createLocalActor('command line'),
                  action: 'remap',
                  parameters: { sources: [source] },
                },
                remap,
                ({ report }) => ({
                  outcome: report === null ? 'done' : toAuditOutcome(report.status),
                  detail: report?.reason ?? null,
                  run: report?.run ?? null,
                }),
              )
          view.end()
          const { report, ...found } = remapped
          if (json) writeJson(stdout, { ...report, ...found })
          else stdout.lines(renderRemap(remapped, stdout))
          if (report !== null) return runExitCode(report)
          return signal.aborted ? Exit.interrupted : Exit.done
        } finally {
          view.end()
        }
      })
    },
  },
)
