import { quoteText } from '../../util/text.ts'
import { DATABASE_VARIABLES, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { InvalidValueError, booleanOption } from '../options.ts'
import { ProgressView } from '../views/progress.ts'
import { writeJson } from '../terminal.ts'
import { renderUndo } from '../views/undo.ts'
import { withApp } from '../settings.ts'

export const undoCommand = defineCommand(
  createParser('undo')
    .summary("takes back a run's writes, where nobody has changed them since")
    .description(
      'Gives each cell that a run has written what it held before, unless somebody has changed it since: that stays, and ' +
        'is told. It is a run itself, so that it can be taken back in its turn. Interrupted or killed, it is typed again and ' +
        'finishes. The rows are not written again before their inputs change or their answers are due, or `fillrate retry ' +
        '--state undone` is typed.',
    )
    .argument('<RUN>', 'the number of a run; `fillrate runs` lists them', parseRun)
    .addOption(booleanOption('--dry-run', 'tells what would be taken back, and writes nothing')),
  {
    group: 'work',
    examples: [['fillrate undo 12 --dry-run', 'first look, then the same without it']],
    exits: [0, 1, 2, 3, 130],
    environment: DATABASE_VARIABLES,
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { stdout, stderr, signal, now } = context
      const [run] = invocation.args
      const { undoExitCode } = await import('../../actions/undo/report.ts')
      return withApp(invocation, context, async (app) => {
        const view = new ProgressView(stderr)
        const startedAt = now()
        try {
          const report = await app.undo({
            run,
            dryRun: invocation.flags.dryRun,
            signal,
            onProgress: (done, all) => view.showCount(done, all, 'writes', now() - startedAt),
          })
          view.end()
          if (invocation.flags.json) writeJson(stdout, report)
          else for (const line of renderUndo(report, stdout)) stdout.line(line)
          return undoExitCode(report)
        } finally {
          view.end()
        }
      })
    },
  },
)

function parseRun(word: string): number {
  const run = /^\d+$/.test(word) ? Number(word) : Number.NaN
  if (Number.isSafeInteger(run)) return run
  throw new InvalidValueError(
    `expected the number of a run, found ${quoteText(word)}`,
    '`fillrate runs` lists them.',
  )
}
