import { openApp } from '../../app.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { retryLines } from '../render/retry.ts'
import { readSettings } from '../settings.ts'

export async function retry(command: Command<'retry'>, context: Context): Promise<ExitCode> {
  const { flags, words } = command
  const { stdout, signal } = context
  const app = await openApp(await readSettings(command, context))
  try {
    const { state: states, reason, dryRun } = flags
    const report = await app.retry({ sources: words, states, reason, dryRun, signal })
    if (flags.json) writeJson(stdout, report)
    else for (const line of retryLines(report, stdout)) stdout.line(line)
    return Exit.done
  } finally {
    await app.close()
  }
}
