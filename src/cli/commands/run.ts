import type { RunReport } from '../../runs/report.ts'
import {
  Exit,
  FINISHING_MESSAGE,
  NOTIFICATION_VARIABLES,
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
    environment: [...SERVICE_VARIABLES, ...RECEIVER_VARIABLES, ...NOTIFICATION_VARIABLES, 'LOG_LEVEL'],
    onInterrupt: FINISHING_MESSAGE,
    waitsForDatabase: true,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [sources] = args
      const { stdout, stderr, signal } = context
      const sample = chooseSampleRows(invocation)
      const { runExitCode } = await import('../../runs/report.ts')
      return withApp(invocation, context, async (app, { log }) => {
        const view = new ProgressView(stderr, stderr.isTTY ? null : log)
        try {
          if (!app.bulk.isPossible && flags.route === 'auto') {
            const text = `${app.bulk.reason}. To enable it, ${app.bulk.todo}.`
            if (stderr.isTTY) stderr.line(`${stderr.paint('warn', 'Bulk is off:')} ${text}`)
            else log.warn({ event: 'bulk_off' }, `bulk is off: ${text}`)
          }
          const { limit, budget, where, route, backfill, dryRun } = flags
          const { auditAction, createLocalActor, toAuditOutcome } = await import('../../actions/audit.ts')
          const report = await explainWhereError(where, () =>
            auditAction(
              app.db,
              {
                actor: createLocalActor('command line'),
                action: 'run',
                parameters: { sources, limit, budget, where, route, backfill, dry_run: dryRun },
              },
              (onStarted) =>
                app.run({
                  sources,
                  limit,
                  budget: budget ?? undefined,
                  where,
                  route,
                  trigger: backfill ? 'backfill' : 'manual',
                  waitMs: flags.wait,
                  dryRun: dryRun ? { sample } : null,
                  signal,
                  onStarted,
                  onProgress: (progress) => view.showRun(progress),
                }),
              ({ status, reason, run }) => ({ outcome: toAuditOutcome(status), detail: reason, run }),
            ),
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
      ? ' Check FILLRATE_API_KEY, FILLRATE_AUTH and FILLRATE_BASE_URL; `fillrate check --call email=…` proves the key. Nothing was lost; run again to continue.'
      : ''
  stderr.line(`${stderr.paint('bad', 'fillrate:')} ${reason ?? status}.${todo}`)
}
