import { Argument } from '@commander-js/extra-typings'
import type { AuditEnd } from '../../actions/audit.ts'
import type { SourceChange } from '../../actions/configured-sources.ts'
import { pluralize } from '../../util/format.ts'
import { UsageError, createParser, defineCommand } from '../command.ts'
import { mustConfirm, requireConfirmation, yesOption } from '../confirm.ts'
import { auditCommand, readConfig, useApp, useDatabase } from '../settings.ts'

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
    .addArgument(new Argument('<rename|retire>', 'what to do').choices(['rename', 'retire']))
    .argument('<NAME>', 'a source that is no longer in the configuration')
    .argument('[NEW]', 'with rename: its name in the configuration')
    .option('--dry-run', 'show how many rows would be renamed or forgotten, without doing it', false)
    .addOption(yesOption),
  {
    group: 'setup',
    examples: [
      ['fillrate source rename contacts people', 'after renaming it in the configuration'],
      ['fillrate source retire leads', 'after taking it out of the configuration'],
    ],

    async handler(call) {
      const { command, args, flags } = call
      const [action, name, newName] = args
      if ((action === 'rename') !== (newName !== undefined))
        throw new UsageError(
          command,
          `${action}: expected ${action === 'rename' ? 'the old name and the new one' : 'one name'}`,
          action === 'rename' ? 'fillrate source rename OLD NEW' : 'fillrate source retire NAME',
        )
      const { renameSource, retireSource } = await import('../../actions/configured-sources.ts')
      const event = {
        action: `source ${action}`,
        parameters: { sources: [name], ...(newName !== undefined && { renamed_to: newName }) },
      } as const
      const describe = ({ rows }: SourceChange): AuditEnd => ({
        outcome: 'done',
        detail: pluralize(rows, 'row'),
      })
      const { dryRun } = flags
      if (newName !== undefined) {
        const { app } = await useApp(call)
        const rename = () => renameSource(app.db, app, name, newName, { dryRun })
        const renamed = await auditCommand(app.db, dryRun ? null : event, rename, describe)
        return {
          json: renamed,
          text: () => [
            `${dryRun ? 'Dry run: ' : ''}${name} ${dryRun ? 'would become' : 'is now'} ${newName}, with ${pluralize(renamed.rows, 'row')}.`,
          ],
        }
      }
      const isAsked = mustConfirm(call)
      const db = await useDatabase(call)
      const names = Object.keys((await readConfig(call)).sources)
      if (isAsked) {
        const { rows } = await retireSource(db, names, name, { dryRun: true })
        const question = `Forget ${pluralize(rows, 'row')} of ${name}? Runs, changes and stored answers stay.`
        await requireConfirmation(question, call)
      }
      const retire = () => retireSource(db, names, name, { dryRun })
      const retired = await auditCommand(db, dryRun ? null : event, retire, describe)
      const rows = pluralize(retired.rows, 'row')
      return {
        json: retired,
        text: () => [
          dryRun
            ? `Dry run: ${rows} of ${name} would be forgotten.`
            : `${name} retired: ${rows} forgotten. Its runs can still be undone, once it is configured again.`,
        ],
      }
    },
  },
)
