import { expect, test } from 'vitest'
import type { LookupBudget } from '../../../src/domain/spend.ts'
import { parsePassForm } from '../../../src/http/dashboard/actions/start-run.ts'
import { parseRetryFilter } from '../../../src/http/dashboard/actions/retry.ts'

const parse = (query: string, budget: LookupBudget | null = null) =>
  parsePassForm(new URLSearchParams(query), ['contacts', 'accounts'], budget)

test('the form of a run is read with the defaults of the configuration', () => {
  expect(parse('source=contacts&source=contacts&budget=1,000&limit=50&route=sync&where=true').pass).toEqual({
    sources: ['contacts'],
    budget: 1_000,
    // Fields that the form does not have say nothing.
    limit: null,
    where: null,
    route: 'auto',
  })
  expect(parse('source=accounts', 500).pass).toMatchObject({ budget: 500 })
  expect(parse('source=accounts&budget=Unlimited').pass).toMatchObject({ budget: null })
  expect(parse('source=accounts&budget=0').pass).toMatchObject({ budget: 0 })
})

test.each([
  ['budget=1', 'source'],
  ['source=contacts&source=else&budget=1', 'source'],
  // A run never spends by surprise: an empty field is no budget.
  ['source=contacts', 'budget'],
  ['source=contacts&budget=-1', 'budget'],
  ['source=contacts&budget=1e9', 'budget'],
  ['source=contacts&budget=99999999999999999999', 'budget'],
  ['source=contacts&budget=1.5', 'budget'],
])('a form with a fault starts nothing, and names its field: %s', (query, field) => {
  const { pass, problems } = parse(query)
  expect(pass).toBeNull()
  expect(Object.keys(problems)).toEqual([field])
})

test('a retry without a state is about the failed ones; unknown states are left out', () => {
  const read = (query: string) => parseRetryFilter(new URLSearchParams(query))
  expect(read('')).toEqual({
    sources: [],
    states: ['rejected', 'write_rejected', 'failed'],
    reason: null,
  })
  expect(read('source=contacts&state=failed&state=enriched&reason=a+timeout')).toEqual({
    sources: ['contacts'],
    states: ['failed'],
    reason: 'a timeout',
  })
})
