import { Argument } from '@commander-js/extra-typings'
import { pluralize } from '../../util/text.ts'
import { createParser, defineCommand } from '../command.ts'
import { auditCommand, useApp } from '../settings.ts'

export const sourceCommand = defineCommand(
  createParser('source')
    .summary('renames a source')
    .description(
      'What Fillrate keeps under OLD gets the name NEW, so that nothing is looked up again, and runs can still ' +
        'be explained and undone. Your own tables are not changed, but for the names of the triggers of live sync. ' +
        'Stop processes that know the old name first.',
    )
    .addArgument(new Argument('<rename>', 'what to do').choices(['rename']))
    .argument('<OLD>', 'a name that is no longer in the configuration')
    .argument('<NEW>', 'its name in the configuration'),
  {
    group: 'setup',
    examples: [['fillrate source rename contacts people', 'after renaming it in the configuration']],

    async handler(call) {
      const [, name, newName] = call.args
      const { renameSource } = await import('../../actions/configured-sources.ts')
      const { app } = await useApp(call)
      const renamed = await auditCommand(
        app.db,
        { action: 'source rename', parameters: { sources: [name], renamed_to: newName } },
        () => renameSource(app.db, app, name, newName),
        ({ rows }) => ({ outcome: 'done', detail: pluralize(rows, 'row') }),
      )
      return {
        json: renamed,
        text: () => [`${name} is now ${newName}, with ${pluralize(renamed.rows, 'row')}.`],
      }
    },
  },
)
