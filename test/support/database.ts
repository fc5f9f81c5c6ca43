import { inject } from 'vitest'
import { cloneDatabase, type TestDatabase } from './clone.ts'

export type { TestDatabase } from './clone.ts'

/** A database of this test's own on the test run's server. */
export const createTestDatabase = (): Promise<TestDatabase> => cloneDatabase(inject('postgresUrl'))
