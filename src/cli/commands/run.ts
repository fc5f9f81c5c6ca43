import type { RunReport } from '../../runs/report.ts'
import {
  FINISHING_MESSAGE,
  RECEIVER_VARIABLES,
  SERVICE_VARIABLES,
  SOURCES_ARGUMENT,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import {
  booleanOption,
  budgetOption,
  durationOption,
  limitOption,
  routeOption,
  whereOption,
  wholeNumberOption,
} from '../options.ts'
import { type Output, writeJson } from '../terminal.ts'
import { ProgressView } from '../views/progress.ts'
import { renderReport } from '../views/report.ts'
import { explainWhereError, withApp } from '../settings.ts'

/** Rows that a dry run shows. */
const SAMPLE = 20

const MINUTE = 60_000

export const runCommand = defineCommand(
  createParser('run')
    .summary('one pass: picks, asks, writes back')
    .description(
      'Picks the rows that lack data, asks the service about them at the rate it allows, and writes the answers back. ' +
        'An interrupted run loses nothing: the next one carries on where it was, and asks nothing twice.',
    )
    .argument(...SOURCES_ARGUMENT)
    .addOption(limitOption)
    .addOption(budgetOption)
    .addOption(whereOption)
    .addOption(routeOption)
    .addOption(
      durationOption(
        '--wait <30m|0>',
        'how long to wait for deliveries when nothing else is left to do; default: 30m',
        30 * MINUTE,
      ),
    )
    .addOption(booleanOption('--backfill', 'behind everything else: syncs and nightly runs ask first'))
    .addOption(
      booleanOption(
        '--dry-run',
        'asks and stores the answers, writes nothing to your tables, shows what it would write',
      ),
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
    examples: [
      ['fillrate run --budget 1000', 'asks at most 1,000 lookups'],
      ['fillrate run --dry-run --budget 100', 'shows what 100 answers would change; the next run writes it'],
      ['fillrate run contacts --limit 50', '50 rows, to see what comes'],
      ['fillrate run --wait 0 --json', 'from cron, with `fillrate serve` to receive the deliveries'],
    ],
    exits: [0, 1, 2, 3, 4, 130],
    environment: [...SERVICE_VARIABLES, ...RECEIVER_VARIABLES, 'LOG_LEVEL'],
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [sources] = args
      const { stdout, stderr, signal } = context
      if (flags.sample !== null && !flags.dryRun)
        throw createUsageError(
          invocation.command,
          '--sample shows rows that a dry run would write: give --dry-run with it',
        )
      const { runExitCode } = await import('../../runs/report.ts')
      return withApp(invocation, context, async (app) => {
        const view = new ProgressView(stderr)
        try {
          if (!app.bulk.isPossible && flags.route === 'auto')
            stderr.line(
              `${stderr.paint('warn', 'Bulk is off:')} ${app.bulk.reason}. To have it, ${app.bulk.todo}.`,
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
              dryRun: flags.dryRun ? { sample: flags.sample ?? SAMPLE } : null,
              signal,
              onProgress: (progress) => view.showRun(progress),
            }),
          )
          view.end()
          if (report.status === 'unauthorized' || report.status === 'failed') tellWhy(report, stderr)
          if (flags.json) writeJson(stdout, report)
          else for (const line of renderReport(report, stdout)) stdout.line(line)
          return runExitCode(report)
        } finally {
          view.end()
        }
      })
    },
  },
)

/** What ended a run that could not go on: an error, so it belongs on standard error. */
function tellWhy({ reason, status }: RunReport, stderr: Output): void {
  const todo =
    status === 'unauthorized'
      ? ' Correct FILLRATE_API_KEY, FILLRATE_AUTH or FILLRATE_BASE_URL, then run again: it carries on where it was.'
      : ''
  stderr.line(`${stderr.paint('bad', 'fillrate:')} ${reason ?? status}.${todo}`)
}
