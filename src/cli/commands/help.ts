import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { isVerb } from '../declarations.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { commandHelp, programHelp } from '../render/help.ts'

export async function help(command: Command<'help'>, context: Context): Promise<ExitCode> {
  const { stdout } = context
  const page = { columns: stdout.textColumns, paint: stdout.paint }
  const [topic] = command.words
  const lines = topic !== undefined && isVerb(topic) ? commandHelp(topic, page) : programHelp(page)
  for (const line of lines) stdout.line(line)
  return Exit.done
}
