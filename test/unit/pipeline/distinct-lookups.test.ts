import { expect, test } from 'vitest'
import { distinctLookups } from '../../../src/pipeline/pick/choose.ts'

test('of lookups that are equal the first is kept, whose input is sent', () => {
  const named = (name: string) => ({ kind: 'name_company' as const, key: 'jane doe|acme', input: { name } })
  const byEmail = { kind: 'email' as const, key: 'jane doe|acme', input: {} }
  expect(distinctLookups([named('Jane Doe'), null, named('JANE DOE'), byEmail])).toEqual([
    named('Jane Doe'),
    byEmail,
  ])
})
