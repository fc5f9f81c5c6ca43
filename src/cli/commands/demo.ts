import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { DemoProblem } from '../demo/problem.ts'
import { showDemo } from '../demo/demo.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'

export async function demo(command: Command<'demo'>, context: Context): Promise<ExitCode> {
  try {
    return await showDemo(command, context)
  } catch (error) {
    if (!(error instanceof DemoProblem)) throw error
    const { stderr, stdout } = context
    stderr.line(`${stderr.paint('bad', 'fillrate:')} ${error.message}`)
    if (command.flags.json) writeJson(stdout, { error: { kind: 'demo', message: error.message } })
    return Exit.failed
  }
}
