import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest'
import { cloneDatabase, type TestDatabase } from './clone.ts'

export type { TestDatabase } from './clone.ts'

/** Creates a database for one test file on the test run's server. */
export const createTestDatabase = (): Promise<TestDatabase> => cloneDatabase(inject('postgresUrl'))

/**
 * What the tests of a file or of a `describe` share: there for its hooks and tests, and ended after them.
 * @param isFresh whether each test has one of its own
 */
export function shareInTests<Shared extends object>(
  start: () => Promise<Shared>,
  end: (shared: Shared) => Promise<void>,
  isFresh = false,
): Shared {
  let shared: Shared | undefined
  const [before, after] = isFresh ? [beforeEach, afterEach] : [beforeAll, afterAll]
  before(async () => {
    shared = await start()
  })
  after(() => shared && end(shared))
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

/** A database for each test of a file. */
export const useFreshDatabase = (): TestDatabase =>
  shareInTests(createTestDatabase, (database) => database.drop(), true)
