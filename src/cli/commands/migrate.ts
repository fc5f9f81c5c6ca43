import { pluralize } from '../../util/text.ts'
import { createParser, defineCommand } from '../command.ts'
import { useDatabase } from '../settings.ts'
import { databaseAddress } from '../views/database-error.ts'

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

    async handler(call) {
      const { stdout, stderr, env } = call
      const onBlocked = (blockers: readonly string[]): void =>
        stderr.line(
          `${stderr.paint('warn', 'Waiting for a lock,')} retrying: ${blockers.join('; ') || 'its holder has ended'}.`,
        )
      const { FIRST_MIGRATION, migrate: apply } = await import('../../store/migrate.ts')
      const { recountRows } = await import('../../store/rows.ts')
      const db = await useDatabase(call)
      const applied = await apply(db, { onBlocked })
      // A dump restored without the schema counts its rows twice.
      const corrected = applied.length === 0 ? await recountRows(db) : 0
      const verb = applied.includes(FIRST_MIGRATION) ? 'Created' : 'Upgraded'
      const where = `the schema "fillrate" in ${databaseAddress(env['DATABASE_URL'])}`
      return {
        json: { applied },
        text: () => {
          if (corrected > 0) return [`Corrected ${pluralize(corrected, 'count')} of rows in ${where}.`]
          if (applied.length === 0) return [`Nothing to do: ${where} is up to date.`]
          return [
            `${stdout.paint('good', '✓')} ${verb} ${where} with ${pluralize(applied.length, 'migration')}:`,
            ...applied.map((name) => `    ${name}`),
          ]
        },
      }
    },
  },
)
