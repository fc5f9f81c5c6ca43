import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { choiceArgument } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { type SuggestedCommand, renderSuggestions } from '../views/layout.ts'
import { withApp } from '../settings.ts'

export const followCommand = defineCommand(
  createParser('follow')
    .summary("puts the triggers of a sync on a source's table, or takes them off")
    .description(
      'With `install`, puts two triggers on the table of a source, which record the keys of rows whose inputs change, so ' +
        'that `fillrate start` enriches them within a second. A statement never fails or waits because of them. With ' +
        '`remove`, takes them off. `fillrate check` tells whether they are there and right. After a change of the ' +
        "source's inputs, install them again.",
    )
    .addArgument(choiceArgument('<install|remove>', 'what to do', ['install', 'remove']))
    .argument('<SOURCE>', 'a source of the configuration'),
  {
    group: 'first',
    examples: [
      ['fillrate follow install contacts', 'then `follow: true` on the source, and `fillrate start`'],
    ],
    environment: DATABASE_VARIABLES,

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
        for (const line of renderSuggestions(nextSteps(name, did.followed), stdout)) stdout.line(line)
        return Exit.done
      })
    },
  },
)

const nextSteps = (name: string, isFollowed: boolean): SuggestedCommand[] => [
  ...(isFollowed
    ? []
    : [['follow: true', `on ${name} in the configuration: without it nobody looks`] as const]),
  ['fillrate start', 'enriches rows as they change'],
  [`fillrate run ${name}`, 'once, for what has changed before'],
]
