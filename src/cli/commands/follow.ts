import { openApp } from '../../app.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { stepLines, type Step } from '../render/steps.ts'
import { readSettings } from '../settings.ts'
import { UsageError } from '../usage-error.ts'

export async function follow(command: Command<'follow'>, context: Context): Promise<ExitCode> {
  const { flags, words } = command
  const [action = '', name = ''] = words
  const { stdout } = context
  if (action !== 'install' && action !== 'remove')
    throw new UsageError(`follow takes install or remove, found '${action}'`, {
      usage: usageOf('follow'),
      help: 'fillrate follow --help',
    })
  const app = await openApp(await readSettings(command, context))
  try {
    const did = await app.follow(action, name)
    if (flags.json) {
      writeJson(stdout, { source: name, action, ...did })
      return Exit.done
    }
    if (action === 'remove') {
      stdout.line(
        did.changed
          ? `The triggers are off ${did.table}. Changes of ${name} are no longer recorded.`
          : `There were no triggers for ${name}.`,
      )
      return Exit.done
    }
    stdout.line(
      `Changes of ${name} are recorded from now on: two triggers are on ${did.table}, which look at`,
    )
    stdout.line(`${did.columns.join(', ')}.`)
    for (const line of stepLines(nextSteps(name, did.followed), stdout)) stdout.line(line)
    return Exit.done
  } finally {
    await app.close()
  }
}

const nextSteps = (name: string, isFollowed: boolean): Step[] => [
  ...(isFollowed
    ? []
    : [['follow: true', `on ${name} in the configuration: without it nobody looks`] as const]),
  ['fillrate start', 'enriches rows as they change'],
  [`fillrate run ${name}`, 'once, for what has changed before'],
]
