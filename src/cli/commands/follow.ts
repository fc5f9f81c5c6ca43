import { Argument } from '@commander-js/extra-typings'
import { defineCommand, parser } from '../command.ts'
import { DATABASE } from '../environment-help.ts'
import { Exit } from '../exit-codes.ts'
import { InvalidValue } from '../options.ts'
import { writeJson } from '../render/json.ts'
import { stepLines, type Step } from '../render/steps.ts'
import { withApp } from '../settings.ts'

export const follow = defineCommand(
  parser('follow')
    .summary("puts the triggers of a sync on a source's table, or takes them off")
    .description(
      'With `install`, puts two triggers on the table of a source, which record the keys of rows whose inputs change, so ' +
        'that `fillrate start` enriches them within a second. A statement never fails or waits because of them. With ' +
        '`remove`, takes them off. `fillrate check` tells whether they are there and right. After a change of the ' +
        "source's inputs, install them again.",
    )
    .addArgument(new Argument('<install|remove>', 'what to do').argParser<'install' | 'remove'>(parseAction))
    .argument('<SOURCE>', 'a source of the configuration'),
  {
    group: 'first',
    examples: [
      ['fillrate follow install contacts', 'then `follow: true` on the source, and `fillrate start`'],
    ],
    environment: DATABASE,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [action, name] = args
      const { stdout } = context
      return withApp(invocation, context, async (app) => {
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
      })
    },
  },
)

function parseAction(typed: string): 'install' | 'remove' {
  if (typed === 'install' || typed === 'remove') return typed
  throw new InvalidValue(`follow takes install or remove, found '${typed}'`)
}

const nextSteps = (name: string, isFollowed: boolean): Step[] => [
  ...(isFollowed
    ? []
    : [['follow: true', `on ${name} in the configuration: without it nobody looks`] as const]),
  ['fillrate start', 'enriches rows as they change'],
  [`fillrate run ${name}`, 'once, for what has changed before'],
]
