import { pluralize } from '../../util/format.ts'
import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { withDatabase } from '../settings.ts'
import { databaseAddress } from '../views/database-error.ts'
import { writeJson } from '../terminal.ts'

export const migrateCommand = defineCommand(
  createParser('migrate')
    .summary('creates or upgrades the schema "fillrate"')
    .description(
      'Creates the schema "fillrate" in the database, or upgrades it to this version. Safe to repeat, and safe to ' +
        'run in several processes at once. Changes none of your own tables.',
    ),
  {
    group: 'setup',
    examples: [['fillrate migrate', 'once, and after each upgrade of Fillrate']],
    environment: DATABASE_VARIABLES,

    async handler({ flags }, context) {
      const { stdout, stderr, env } = context
      const onBlocked = (blockers: readonly string[]): void =>
        stderr.line(
          `${stderr.paint('warn', 'Waiting for a lock,')} retrying: ${blockers.join('; ') || 'its holder has ended'}.`,
        )
      const { migrate: apply } = await import('../../store/migrate.ts')
      const { recountRows } = await import('../../store/rows.ts')
      const { applied, corrected } = await withDatabase(context, async (db) => {
        const applied = await apply(db, { onBlocked })
        // A dump restored without the schema counts its rows twice.
        return { applied, corrected: applied.length === 0 ? await recountRows(db) : 0 }
      })
      if (flags.json) {
        writeJson(stdout, { applied })
        return Exit.done
      }
      const where = `the schema "fillrate" in ${databaseAddress(env['DATABASE_URL'])}`
      if (corrected > 0) stdout.line(`Corrected ${pluralize(corrected, 'count')} of rows in ${where}.`)
      else if (applied.length === 0) stdout.line(`Nothing to do: ${where} is up to date.`)
      else {
        stdout.line(
          `${stdout.paint('good', '✓')} Upgraded ${where} with ${pluralize(applied.length, 'migration')}:`,
        )
        for (const name of applied) stdout.line(`    ${name}`)
      }
      return Exit.done
    },
  },
)
