import type { Command } from './command.ts'
import type { Context } from './context.ts'
import type { ExitCode } from './exit-codes.ts'

/**
 * Runs a command. Each is loaded when it is wanted: help must not wait for a database driver.
 * @returns how the process is to end
 */
export async function dispatch(command: Command, context: Context): Promise<ExitCode> {
  switch (command.verb) {
    case 'check':
      return (await import('./commands/check.ts')).check(command, context)
    case 'demo':
      return (await import('./commands/demo.ts')).demo(command, context)
    case 'explain':
      return (await import('./commands/explain.ts')).explain(command, context)
    case 'failures':
      return (await import('./commands/failures.ts')).failures(command, context)
    case 'forget':
      return (await import('./commands/forget.ts')).forget(command, context)
    case 'follow':
      return (await import('./commands/follow.ts')).follow(command, context)
    case 'help':
      return (await import('./commands/help.ts')).help(command, context)
    case 'init':
      return (await import('./commands/init.ts')).init(command, context)
    case 'jobs':
      return (await import('./commands/jobs.ts')).jobs(command, context)
    case 'migrate':
      return (await import('./commands/migrate.ts')).migrate(command, context)
    case 'pause':
    case 'resume':
      return (await import('./commands/pause.ts')).pause(command, context)
    case 'plan':
      return (await import('./commands/plan.ts')).plan(command, context)
    case 'remap':
      return (await import('./commands/remap.ts')).remap(command, context)
    case 'retry':
      return (await import('./commands/retry.ts')).retry(command, context)
    case 'run':
      return (await import('./commands/run.ts')).run(command, context)
    case 'runs':
      return (await import('./commands/runs.ts')).runs(command, context)
    case 'sandbox':
      return (await import('./commands/sandbox.ts')).sandbox(command, context)
    case 'schedule':
      return (await import('./commands/schedule.ts')).schedule(command, context)
    case 'serve':
      return (await import('./commands/serve.ts')).serve(command, context)
    case 'start':
      return (await import('./commands/start.ts')).start(command, context)
    case 'status':
      return (await import('./commands/status.ts')).status(command, context)
    case 'undo':
      return (await import('./commands/undo.ts')).undo(command, context)
    case 'version':
      return (await import('./commands/version.ts')).version(command, context)
  }
}
