import { openApp } from '../../app.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { planLines } from '../render/plan.ts'
import { readSettings } from '../settings.ts'
import { blamingWhere } from '../where.ts'

export async function plan(command: Command<'plan'>, context: Context): Promise<ExitCode> {
  const { flags, words } = command
  const { stdout, signal } = context
  const settings = await readSettings(command, context)
  const app = await openApp(settings)
  try {
    const made = await blamingWhere(flags.where, () =>
      app.plan({
        sources: words,
        limit: flags.limit,
        budget: flags.budget ?? undefined,
        where: flags.where,
        route: flags.route,
        sample: flags.sample,
        signal,
      }),
    )
    if (flags.json) writeJson(stdout, { ...made, bulk: app.bulk })
    else {
      const bulkOff = flags.route === 'sync' ? null : app.bulk.why
      const budget = flags.budget ?? settings.config.budget
      for (const line of planLines(made, stdout, { budget, bulkOff })) stdout.line(line)
    }
    return Exit.done
  } finally {
    await app.close()
  }
}
