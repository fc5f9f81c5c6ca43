import { toVariable } from '../../util/text.ts'
import type { RunReport } from '../../domain/report/run.ts'
import { Exit, FINISHING_MESSAGE, SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import {
  DRY_RUN_SAMPLE_ROWS,
  budgetOption,
  limitOption,
  parseMs,
  routeOption,
  statesOption,
  whereOption,
} from '../options.ts'
import type { Output } from '../terminal.ts'
import { ProgressView } from '../views/progress.ts'
import { renderReport } from '../views/report.ts'
import { auditCommand, useApp } from '../settings.ts'

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
    .option(
      '--wait <30m|0>',
      'how long to wait for the results of bulk jobs once everything else is done; default: 30m',
      parseMs,
      30 * MINUTE,
    )
    .option('--backfill', 'lowest priority: live sync and scheduled runs go first', false)
    .option(
      '--dry-run',
      'look up and store the records, and show what would be written without writing it',
      false,
    )
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
      ["fillrate run contacts 'acme_*'", 'the source contacts, and each whose name begins with acme_'],
      [
        'fillrate run --wait 0 --exit-zero-on 3,4',
        'from cron, with `fillrate serve` to receive the webhooks',
      ],
    ],
    exits: [0, 1, 2, 3, 4, 130],
    onInterrupt: FINISHING_MESSAGE,
    waitsForDatabase: true,

    async handler(call) {
      const { stdout, stderr, signal } = call
      const { limit, budget, where, route, backfill, dryRun, wait: waitMs, exitZeroOn } = call.flags
      const { runExitCode } = await import('../../runs/report.ts')
      const { toAuditOutcome } = await import('../../actions/audit.ts')
      const { app, log } = await useApp(call)
      const sources = app.expandSourceNames(call.args[0])
      const view = new ProgressView(stderr, log)
      const report = await auditCommand(
        app.db,
        {
          action: 'run',
          parameters: { sources, limit, budget, where, route, backfill, dry_run: dryRun },
        },
        () =>
          app.run({
            sources,
            limit,
            budget: budget ?? undefined,
            where,
            route,
            trigger: backfill ? 'backfill' : 'manual',
            waitMs,
            dryRun: dryRun ? { sample: DRY_RUN_SAMPLE_ROWS } : null,
            signal,
            onProgress: (progress) => view.showRun(progress),
          }),
        ({ status, reason, run }) => ({ outcome: toAuditOutcome(status), detail: reason, run }),
      )
      view.end()
      if (runExitCode(report) === 2 || report.status === 'failed') printFailure(report, stderr)
      const exit = runExitCode(report)
      return {
        json: report,
        text: () => renderReport(report, stdout),
        exit: exitZeroOn.some((code) => Number(code) === exit) ? Exit.done : exit,
      }
    },
  },
)

/** The reason why a run failed is an error, so it is written to standard error. */
function printFailure({ reason, status, services }: RunReport, stderr: Output): void {
  const refused = services?.flatMap(({ status, service }) => (status === 'unauthorized' ? service : [])) ?? [
    null,
  ]
  const variables = refused.flatMap((name) =>
    (['API_KEY', 'AUTH', 'BASE_URL'] as const).map((variable) => toVariable(name, variable)),
  )
  const todo =
    status === 'unauthorized'
      ? ` Check ${variables.slice(0, -1).join(', ')} and ${variables.at(-1)}; \`fillrate check --call email=…\` proves the key. Nothing was lost; run again to continue.`
      : status === 'misconfigured'
        ? ' Nothing was lost; run again to continue.'
        : ''
  stderr.line(`${stderr.paint('bad', 'fillrate:')} ${reason ?? status}.${todo}`)
}
