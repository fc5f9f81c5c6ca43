import type { CliCommand } from './command.ts'
import { cancelCommand } from './commands/cancel.ts'
import { checkCommand } from './commands/check.ts'
import { demoCommand } from './commands/demo.ts'
import { explainCommand } from './commands/explain.ts'
import { failuresCommand } from './commands/failures.ts'
import { followCommand } from './commands/follow.ts'
import { forgetCommand } from './commands/forget.ts'
import { initCommand } from './commands/init.ts'
import { migrateCommand } from './commands/migrate.ts'
import { pauseCommand, resumeCommand } from './commands/pause.ts'
import { planCommand } from './commands/plan.ts'
import { remapCommand } from './commands/remap.ts'
import { retryCommand } from './commands/retry.ts'
import { runCommand } from './commands/run.ts'
import { runsCommand } from './commands/runs.ts'
import { sandboxCommand } from './commands/sandbox.ts'
import { serveCommand } from './commands/serve.ts'
import { sourceCommand } from './commands/source.ts'
import { startCommand } from './commands/start.ts'
import { statusCommand } from './commands/status.ts'
import { undoCommand } from './commands/undo.ts'

/** All commands, in the order of help. */
export const commands: readonly CliCommand[] = [
  demoCommand,
  initCommand,
  checkCommand,
  migrateCommand,
  followCommand,
  sourceCommand,
  planCommand,
  runCommand,
  cancelCommand,
  retryCommand,
  undoCommand,
  forgetCommand,
  remapCommand,
  startCommand,
  pauseCommand,
  resumeCommand,
  serveCommand,
  statusCommand,
  runsCommand,
  failuresCommand,
  explainCommand,
  sandboxCommand,
]

export const findCommand = (name: string | undefined): CliCommand | null =>
  commands.find((command) => command.name === name) ?? null
