import { expect, it } from 'vitest'
import { explainDatabaseError } from '../../../../src/cli/views/database-error.ts'

const URL = 'postgres://crm:secret@db.example:5432/crm'

it('says that Postgres closed the connection in the middle of a statement', () => {
  // As pg throws it, without a code.
  const problem = explainDatabaseError(new Error('Connection terminated unexpectedly'), URL)
  expect(problem).toMatchObject({ place: 'DATABASE_URL', expected: 'a reachable Postgres database' })
  expect(problem?.found).toBe('crm@db.example:5432/crm: the connection was closed')
  expect(problem?.todo).toContain('try again')
})

it('explains nothing that is not of the database', () => {
  expect(explainDatabaseError(new Error('Connection of the service terminated'), URL)).toBeNull()
})
