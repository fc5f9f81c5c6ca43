import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { version as read } from '../version.ts'

export async function version(command: Command<'version'>, { stdout }: Context): Promise<ExitCode> {
  if (command.flags.json) writeJson(stdout, { version: read() })
  else stdout.line(read())
  return Exit.done
}
