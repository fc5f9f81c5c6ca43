import { expect, test } from 'vitest'
import { describeUnusable } from '../../../src/pipeline/pick/choose.ts'

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
