import {
  DATABASE_VARIABLES,
  Exit,
  FINISHING_MESSAGE,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import { booleanOption, wholeNumberOption } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderRemap } from '../views/remap.ts'
import { withApp } from '../settings.ts'

/** Rows that a dry run shows. */
const SAMPLE = 20

export const remapCommand = defineCommand(
  createParser('remap')
    .summary('writes stored records again under a changed mapping, without a call')
    .description(
      'Holds the records that are stored against the mapping as it is now, and writes what it would change: columns that ' +
        'were added, maps that were changed, a lower minConfidence. The policies hold as in every run. Rows that an undo has ' +
        'taken back are written too. It is a run itself, and can be taken back.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .addOption(
      booleanOption('--dry-run', 'tells what would be written, with the first rows, and writes nothing'),
    )
    .addOption(
      wholeNumberOption(
        '--sample <N>',
        'rows to show before and after, with --dry-run; default: 20',
        0,
        null,
      ),
    ),
  {
    group: 'work',
    examples: [['fillrate remap contacts --dry-run', 'first look, then the same without it']],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { stdout, stderr, signal, now } = context
      const { dryRun, sample, json } = invocation.flags
      const [source] = invocation.args
      if (sample !== null && !dryRun)
        throw createUsageError(
          invocation.command,
          '--sample shows rows that would be written: give --dry-run with it',
        )
      const { runExitCode } = await import('../../runs/report.ts')
      return withApp(invocation, context, async (app) => {
        const view = new ProgressView(stderr)
        const startedAt = now()
        try {
          const remapped = await app.remap({
            source,
            dryRun,
            sample: sample ?? SAMPLE,
            signal,
            onProgress: (done, all) => view.showCount(done, all, 'rows', now() - startedAt),
          })
          view.end()
          const { report, ...found } = remapped
          if (json) writeJson(stdout, { ...report, ...found })
          else for (const line of renderRemap(remapped, stdout)) stdout.line(line)
          if (report !== null) return runExitCode(report)
          return signal.aborted ? Exit.interrupted : Exit.done
        } finally {
          view.end()
        }
      })
    },
  },
)
