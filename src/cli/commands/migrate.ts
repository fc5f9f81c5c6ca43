import { migrate as apply } from '../../store/migrate.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { withDatabase } from '../database.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { addressOf } from '../render/database-error.ts'
import { writeJson } from '../render/json.ts'
import { counted } from '../../domain/numbers.ts'

export async function migrate(command: Command<'migrate'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, env } = context
  const onBlocked = (blockers: readonly string[]): void =>
    stderr.line(
      `${stderr.paint('warn', 'Waiting for a lock,')} which is tried again: ${blockers.join('; ') || 'its holder has ended meanwhile'}.`,
    )
  const applied = await withDatabase(context, (db) => apply(db, { onBlocked }))
  if (command.flags.json) {
    writeJson(stdout, { applied })
    return Exit.done
  }
  const where = `the schema "fillrate" in ${addressOf(env['DATABASE_URL'])}`
  if (applied.length === 0) stdout.line(`Nothing to do: ${where} is up to date.`)
  else {
    stdout.line(
      `${stdout.paint('good', '✓')} Brought ${where} up to date with ${counted(applied.length, 'migration')}:`,
    )
    for (const name of applied) stdout.line(`    ${name}`)
  }
  return Exit.done
}
