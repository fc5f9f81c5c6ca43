import type { CliCommand } from './command.ts'
import { check } from './commands/check.ts'
import { demo } from './commands/demo.ts'
import { explain } from './commands/explain.ts'
import { failures } from './commands/failures.ts'
import { follow } from './commands/follow.ts'
import { forget } from './commands/forget.ts'
import { createHelp } from './commands/help.ts'
import { init } from './commands/init.ts'
import { jobs } from './commands/jobs.ts'
import { migrate } from './commands/migrate.ts'
import { pause, resume } from './commands/pause.ts'
import { plan } from './commands/plan.ts'
import { remap } from './commands/remap.ts'
import { retry } from './commands/retry.ts'
import { run } from './commands/run.ts'
import { runs } from './commands/runs.ts'
import { sandbox } from './commands/sandbox.ts'
import { schedule } from './commands/schedule.ts'
import { serve } from './commands/serve.ts'
import { start } from './commands/start.ts'
import { status } from './commands/status.ts'
import { undo } from './commands/undo.ts'
import { version } from './commands/version.ts'

/** Every command, in the order of help. */
export const commands: readonly CliCommand[] = [
  demo,
  init,
  check,
  migrate,
  follow,
  plan,
  run,
  retry,
  undo,
  forget,
  remap,
  start,
  pause,
  resume,
  serve,
  status,
  schedule,
  runs,
  jobs,
  failures,
  explain,
  sandbox,
  createHelp(() => commands),
  version,
]

export const findCommand = (name: string | undefined): CliCommand | null =>
  commands.find((one) => one.name === name) ?? null
