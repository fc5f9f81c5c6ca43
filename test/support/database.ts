import { afterAll, beforeAll, inject } from 'vitest'
import { cloneDatabase, type TestDatabase } from './clone.ts'

export type { TestDatabase } from './clone.ts'

/** Creates a database for one test file on the test run's server. */
export const createTestDatabase = (): Promise<TestDatabase> => cloneDatabase(inject('postgresUrl'))

/** What the tests of a file or of a `describe` share: there for its hooks and tests, and ended after them. */
export function shareInTests<Shared extends object>(
  start: () => Promise<Shared>,
  end: (shared: Shared) => Promise<void>,
): Shared {
  let shared: Shared | undefined
  beforeAll(async () => {
    shared = await start()
  })
  afterAll(() => shared && end(shared))
  return new Proxy({} as Shared, {
    get: (_, name) => {
      if (shared === undefined) throw new Error('it is used before the tests begin')
      return shared[name as keyof Shared]
    },
  })
}

/** A database of a test file's own. */
export const useTestDatabase = (): TestDatabase =>
  shareInTests(createTestDatabase, (database) => database.drop())
