import type { RunReport } from '../../runs/report.ts'
import {
  Exit,
  FINISHING_MESSAGE,
  RECEIVER_VARIABLES,
  SERVICE_VARIABLES,
  SOURCES_ARGUMENT,
  createParser,
  chooseSampleRows,
  defineCommand,
} from '../command.ts'
import {
  booleanOption,
  budgetOption,
  durationOption,
  limitOption,
  routeOption,
  statesOption,
  whereOption,
  dryRunSampleOption,
} from '../options.ts'
import { type Output, writeJson } from '../terminal.ts'
import { ProgressView } from '../views/progress.ts'
import { renderReport } from '../views/report.ts'
import { explainWhereError, withApp } from '../settings.ts'

const MINUTE = 60_000

export const runCommand = defineCommand(
  createParser('run')
    .summary('runs one pass: picks rows, looks them up, writes back')
    .description(
      'Picks the rows that lack data, looks them up at the rate that the service allows, and writes the results ' +
        'back. An interrupted run loses nothing: the next run continues where it stopped and repeats no lookup.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(limitOption)
    .addOption(budgetOption)
    .addOption(whereOption)
    .addOption(routeOption)
    .addOption(
      durationOption(
        '--wait <30m|0>',
        'how long to wait for webhooks once everything else is done; default: 30m',
        30 * MINUTE,
      ),
    )
    .addOption(booleanOption('--backfill', 'lowest priority: live sync and scheduled runs go first'))
    .addOption(
      booleanOption(
        '--dry-run',
        'look up and store the records, and show what would be written without writing it',
      ),
    )
    .addOption(dryRunSampleOption)
    .addOption(
      statesOption(
        '--exit-zero-on <3,4>',
        'exit with 0 instead of these codes, for a scheduler to which every other code is a failure',
        ['3', '4'],
        [],
      ),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate run --budget 1000', 'at most 1,000 lookups'],
      ['fillrate run --dry-run --budget 100', 'shows what 100 lookups would change; the next run writes it'],
      ['fillrate run contacts --limit 50', 'try 50 rows first'],
      [
        'fillrate run --wait 0 --exit-zero-on 3,4',
        'from cron, with `fillrate serve` to receive the webhooks',
      ],
    ],
    exits: [0, 1, 2, 3, 4, 130],
    environment: [...SERVICE_VARIABLES, ...RECEIVER_VARIABLES, 'LOG_LEVEL'],
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [sources] = args
      const { stdout, stderr, signal } = context
      const sample = chooseSampleRows(invocation)
      const { runExitCode } = await import('../../runs/report.ts')
      return withApp(invocation, context, async (app) => {
        const view = new ProgressView(stderr)
        try {
          if (!app.bulk.isPossible && flags.route === 'auto')
            stderr.line(
              `${stderr.paint('warn', 'Bulk is off:')} ${app.bulk.reason}. To enable it, ${app.bulk.todo}.`,
            )
          const report = await explainWhereError(flags.where, () =>
            app.run({
              sources,
              limit: flags.limit,
              budget: flags.budget ?? undefined,
              where: flags.where,
              route: flags.route,
              trigger: flags.backfill ? 'backfill' : 'manual',
              waitMs: flags.wait,
              dryRun: flags.dryRun ? { sample } : null,
              signal,
              onProgress: (progress) => view.showRun(progress),
            }),
          )
          view.end()
          if (report.status === 'unauthorized' || report.status === 'failed') printFailure(report, stderr)
          if (flags.json) writeJson(stdout, report)
          else stdout.lines(renderReport(report, stdout))
          const code = runExitCode(report)
          return flags.exitZeroOn.some((one) => Number(one) === code) ? Exit.done : code
        } finally {
          view.end()
        }
      })
    },
  },
)

/** The reason why a run failed is an error, so it is written to standard error. */
function printFailure({ reason, status }: RunReport, stderr: Output): void {
  const todo =
    status === 'unauthorized'
      ? ' Check FILLRATE_API_KEY, FILLRATE_AUTH and FILLRATE_BASE_URL. Nothing was lost; run again to continue.'
      : ''
  stderr.line(`${stderr.paint('bad', 'fillrate:')} ${reason ?? status}.${todo}`)
}
