import { readEnvironment, type Environment } from '../config/environment.ts'
import { ConfigProblems } from '../config/problems.ts'
import type { Database } from '../store/open.ts'
import type { Context } from './context.ts'

/**
 * Opens the database of the environment for a command that needs nothing else, and closes it again.
 * @throws ConfigProblems where there is no DATABASE_URL
 */
export async function withDatabase<Result>(
  context: Pick<Context, 'env'>,
  act: (db: Database, environment: Environment) => Promise<Result>,
): Promise<Result> {
  const environment = readEnvironment(context.env)
  if (environment.databaseUrl === null)
    throw new ConfigProblems('the environment', [
      {
        place: 'DATABASE_URL',
        found: 'not set',
        expected: 'the address of the CRM database, postgres://user:password@host:5432/name',
        todo: 'Set it in the environment or in a .env file in this folder.',
      },
    ])
  const { openDatabase } = await import('../store/open.ts')
  const db = openDatabase({ url: environment.databaseUrl, max: 2 })
  try {
    return await act(db, environment)
  } finally {
    await db.destroy()
  }
}
