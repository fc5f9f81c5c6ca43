import { quoteText } from '../../util/text.ts'
import { DATABASE_VARIABLES, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { InvalidValueError, booleanOption } from '../options.ts'
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
        'them.',
    )
    .argument('<RUN>', 'the number of a run; `fillrate runs` lists them', parseRun)
    .addOption(booleanOption('--dry-run', 'show what would be restored without writing it')),
  {
    group: 'work',
    examples: [['fillrate undo 12 --dry-run', 'preview; then the same without --dry-run']],
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
          else stdout.lines(renderUndo(report, stdout))
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
