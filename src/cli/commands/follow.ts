import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { choiceArgument } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { type SuggestedCommand, renderSuggestions } from '../views/layout.ts'
import { withApp } from '../settings.ts'

export const followCommand = defineCommand(
  createParser('follow')
    .summary('installs or removes the triggers of live sync')
    .description(
      '`install` creates triggers on the table of a source. They record the keys of rows whose inputs change, ' +
        'and `fillrate start` enriches these rows within a second. The triggers never make a statement fail or wait. ' +
        '`remove` drops them. `fillrate check` verifies them. Install them again after a change to the inputs of the ' +
        'source.',
    )
    .addArgument(choiceArgument('<install|remove>', 'create or drop the triggers', ['install', 'remove']))
    .argument('<SOURCE>', 'a source of the configuration'),
  {
    group: 'setup',
    examples: [
      ['fillrate follow install contacts', 'then `follow: true` on the source, and `fillrate start`'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { flags, args } = invocation
      const [action, name] = args
      const { stdout } = context
      return withApp(invocation, context, async (app) => {
        const { auditAction, createLocalActor } = await import('../../actions/audit.ts')
        const did = await auditAction(
          app.db,
          {
            actor: createLocalActor('command line'),
            action: `follow ${action}`,
            parameters: { sources: [name] },
          },
          () => app.follow(action, name),
          ({ changed }) => ({ outcome: 'done', detail: changed ? null : 'nothing to change' }),
        )
        if (flags.json) {
          writeJson(stdout, { source: name, action, ...did })
          return Exit.done
        }
        if (action === 'remove') {
          stdout.line(
            did.changed
              ? `Triggers removed from ${did.table}. Changes of ${name} are no longer recorded.`
              : `No triggers were installed for ${name}.`,
          )
          return Exit.done
        }
        stdout.line(`Changes of ${name} are now recorded: triggers on ${did.table} watch the columns`)
        stdout.line(`${did.columns.join(', ')}.`)
        stdout.lines(renderSuggestions(nextSteps(name, did.followed), stdout))
        return Exit.done
      })
    },
  },
)

const nextSteps = (name: string, isFollowed: boolean): SuggestedCommand[] => [
  ...(isFollowed
    ? []
    : [['follow: true', `add to ${name} in the configuration to enable live sync`] as const]),
  ['fillrate start', 'enriches rows as they change'],
  [`fillrate run ${name}`, 'once, for earlier changes'],
]
