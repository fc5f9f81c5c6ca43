import { inject } from 'vitest'
import { cloneDatabase, type TestDatabase } from './clone.ts'

export type { TestDatabase } from './clone.ts'

/** Creates a database for one test file on the test run's server. */
export const createTestDatabase = (): Promise<TestDatabase> => cloneDatabase(inject('postgresUrl'))
