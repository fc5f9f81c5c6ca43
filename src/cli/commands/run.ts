import { openApp } from '../../app.ts'
import { exitCodeOf, type RunReport } from '../../pipeline/run/report.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import type { ExitCode } from '../exit-codes.ts'
import type { Output } from '../output.ts'
import { writeJson } from '../render/json.ts'
import { ProgressView } from '../render/progress.ts'
import { reportLines } from '../render/report.ts'
import { readSettings } from '../settings.ts'
import { UsageError } from '../usage-error.ts'
import { blamingWhere } from '../where.ts'

/** Rows that a dry run shows. */
const SAMPLE = 20

export async function run(command: Command<'run'>, context: Context): Promise<ExitCode> {
  const { flags, words } = command
  const { stdout, stderr, signal } = context
  if (flags.sample !== null && !flags.dryRun)
    throw new UsageError('--sample shows rows that a dry run would write: give --dry-run with it', {
      usage: usageOf('run'),
      help: 'fillrate run --help',
    })
  const app = await openApp(await readSettings(command, context))
  const view = new ProgressView(stderr)
  try {
    if (!app.bulk.possible && flags.route === 'auto')
      stderr.line(`${stderr.paint('warn', 'Bulk is off:')} ${app.bulk.why}. To have it, ${app.bulk.todo}.`)
    const report = await blamingWhere(flags.where, () =>
      app.run({
        sources: words,
        limit: flags.limit,
        budget: flags.budget ?? undefined,
        where: flags.where,
        route: flags.route,
        trigger: flags.backfill ? 'backfill' : 'manual',
        waitMs: flags.wait,
        dryRun: flags.dryRun ? { sample: flags.sample ?? SAMPLE } : null,
        signal,
        onProgress: (progress) => view.update(progress),
      }),
    )
    view.end()
    if (report.status === 'unauthorized' || report.status === 'failed') tellWhy(report, stderr)
    if (flags.json) writeJson(stdout, report)
    else for (const line of reportLines(report, stdout)) stdout.line(line)
    return exitCodeOf(report)
  } finally {
    view.end()
    await app.close()
  }
}

/** What ended a run that could not go on: an error, so it belongs on standard error. */
function tellWhy({ reason, status }: RunReport, stderr: Output): void {
  const todo =
    status === 'unauthorized'
      ? ' Correct FILLRATE_API_KEY, FILLRATE_AUTH or FILLRATE_BASE_URL, then run again: it carries on where it was.'
      : ''
  stderr.line(`${stderr.paint('bad', 'fillrate:')} ${reason ?? status}.${todo}`)
}
