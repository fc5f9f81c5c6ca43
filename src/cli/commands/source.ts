import type { SourceChange } from '../../actions/configured-sources.ts'
import { pluralize } from '../../util/format.ts'
import { DATABASE_VARIABLES, Exit, createParser, createUsageError, defineCommand } from '../command.ts'
import { confirm, mustConfirm, yesOption } from '../confirm.ts'
import { booleanOption, choiceArgument } from '../options.ts'
import { readConfig, withApp, withDatabase } from '../settings.ts'
import { writeJson } from '../terminal.ts'

export const sourceCommand = defineCommand(
  createParser('source')
    .summary('renames a source, or retires one that left the configuration')
    .description(
      '`rename OLD NEW`: the source has the name NEW in the configuration now. What Fillrate keeps under OLD gets the ' +
        'new name, so that nothing is looked up again, and its runs can still be explained and undone. ' +
        '`retire NAME`: the source left the configuration for good. Its rows, queued changes, failures and fill rates are ' +
        'forgotten; runs, spend, changes (for undo) and stored answers stay. On a terminal it needs a confirmation, elsewhere --yes. Your own tables are not changed, except that ' +
        'the triggers of live sync are renamed or removed. Reload or stop processes that know the old name first.',
    )
    .addArgument(choiceArgument('<rename|retire>', 'what to do', ['rename', 'retire']))
    .argument('<NAME>', 'a source that is no longer in the configuration')
    .argument('[NEW]', 'with rename: its name in the configuration')
    .addOption(booleanOption('--dry-run', 'with retire: show how many rows would be forgotten'))
    .addOption(yesOption),
  {
    group: 'setup',
    examples: [
      ['fillrate source rename contacts people', 'after renaming it in the configuration'],
      ['fillrate source retire leads', 'after taking it out of the configuration'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { command, args, flags } = invocation
      const [action, name, newName] = args
      const { stdout } = context
      if ((action === 'rename') !== (newName !== undefined))
        throw createUsageError(
          command,
          `${action}: expected ${action === 'rename' ? 'the old name and the new one' : 'one name'}`,
          action === 'rename' ? 'fillrate source rename OLD NEW' : 'fillrate source retire NAME',
        )
      const isAsked = action === 'retire' && !flags.dryRun && mustConfirm(invocation, context)
      const [{ renameSource, retireSource }, { auditAction, createLocalActor }] = await Promise.all([
        import('../../actions/configured-sources.ts'),
        import('../../actions/audit.ts'),
      ])
      const audited = (
        db: Parameters<typeof retireSource>[0],
        act: () => Promise<SourceChange>,
      ): Promise<SourceChange> =>
        auditAction(
          db,
          {
            actor: createLocalActor('command line'),
            action: `source ${action}`,
            parameters: { sources: [name], ...(newName !== undefined && { renamed_to: newName }) },
          },
          act,
          ({ rows }) => ({ outcome: 'done', detail: pluralize(rows, 'row') }),
        )
      const change =
        newName === undefined
          ? await withDatabase(context, async (db) => {
              const names = Object.keys((await readConfig(invocation, context)).sources)
              if (isAsked) {
                const { rows } = await retireSource(db, names, name, { dryRun: true })
                const question = `Forget ${pluralize(rows, 'row')} of ${name}? Runs, changes and stored answers stay.`
                if (!(await confirm(question, context))) return null
              }
              if (flags.dryRun) return retireSource(db, names, name, { dryRun: true })
              return audited(db, () => retireSource(db, names, name, { dryRun: false }))
            })
          : await withApp(invocation, context, (app) =>
              audited(app.db, () => renameSource(app.db, app, name, newName)),
            )
      if (change === null) {
        stdout.line('Nothing was changed.')
        return Exit.failed
      }
      if (flags.json) writeJson(stdout, change)
      else
        stdout.line(
          change.renamed_to === null
            ? flags.dryRun
              ? `Dry run: ${pluralize(change.rows, 'row')} of ${name} would be forgotten.`
              : `${name} retired: ${pluralize(change.rows, 'row')} forgotten. Its runs can still be undone, once it is configured again.`
            : `${name} is now ${change.renamed_to}, with ${pluralize(change.rows, 'row')}.`,
        )
      return Exit.done
    },
  },
)
