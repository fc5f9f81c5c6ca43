import { expect, test } from 'vitest'
import { describeOutage } from '../../../src/http/dashboard/pages/verdict.ts'

test.each([
  ['relation "fillrate.runs" does not exist', true],
  ['Relation »fillrate.runs« existiert nicht', true],
  ['la relation « fillrate.runs » n’existe pas', true],
  ['relation "crm.fillrate" does not exist', false],
  ['column t.title does not exist', false],
])('%s: of the schema of Fillrate: %s', (message, isOfSchema) => {
  const error = Object.assign(new Error(message), { code: '42P01', position: '15' })
  expect(describeOutage(error, null, 0) !== null).toBe(isOfSchema)
})
