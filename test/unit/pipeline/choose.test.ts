import { expect, test } from 'vitest'
import { describeUnusable, distinctLookups } from '../../../src/pipeline/pick/claim.ts'

const email = { input: 'email', reason: 'no domain' }
const company = { input: 'company', reason: 'missing' }

test('rows without a usable input have one reason, whatever else is blank', () => {
  expect(describeUnusable([email, company])).toBe('email: no domain')
  expect(describeUnusable([email])).toBe('email: no domain')
  expect(describeUnusable([company])).toBe('company: missing')
  expect(describeUnusable([])).toBe('no input')
  expect(describeUnusable([email, { input: 'linkedin_url', reason: 'company page' }])).toBe(
    'email: no domain; linkedin_url: company page',
  )
})

test('of lookups that are equal the first is kept, whose input is sent', () => {
  const named = (name: string) => ({ kind: 'name_company' as const, key: 'jane doe|acme', input: { name } })
  const byEmail = { kind: 'email' as const, key: 'jane doe|acme', input: {} }
  expect(distinctLookups([named('Jane Doe'), null, named('JANE DOE'), byEmail])).toEqual([
    named('Jane Doe'),
    byEmail,
  ])
})
