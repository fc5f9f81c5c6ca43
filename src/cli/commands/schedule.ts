import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { scheduleJson, scheduleLines } from '../render/schedule.ts'
import { readConfig } from '../settings.ts'

export async function schedule(command: Command<'schedule'>, context: Context): Promise<ExitCode> {
  const { flags } = command
  const { stdout, now } = context
  const config = await readConfig(command, context)
  if (flags.json) writeJson(stdout, { schedule: scheduleJson(config.schedule, now(), flags.limit) })
  else for (const line of scheduleLines(config.schedule, now(), flags.limit, stdout)) stdout.line(line)
  return Exit.done
}
