import { expect, test } from 'vitest'
import { toRequestProgress } from '../../../src/domain/requested-run.ts'
import { parsePassForm } from '../../../src/http/dashboard/actions/pass-form.ts'
import { parseRetryFilter } from '../../../src/http/dashboard/actions/retry.ts'

const parse = (query: string, config: Partial<Parameters<typeof parsePassForm>[2]> = {}) =>
  parsePassForm(new URLSearchParams(query), ['contacts', 'accounts'], {
    budget: null,
    dashboard: { allowWhere: false },
    ...config,
  })

test('the form of a run is read with the defaults of the configuration', () => {
  expect(parse('source=contacts&source=contacts&budget=1,000&limit=50&route=sync&dry=1').pass).toEqual({
    sources: ['contacts'],
    limit: 50,
    budget: 1_000,
    where: null,
    route: 'sync',
    isDryRun: true,
  })
  expect(parse('source=accounts', { budget: 500 }).pass).toMatchObject({
    limit: null,
    budget: 500,
    route: 'auto',
    isDryRun: false,
  })
  expect(parse('source=accounts&budget=Unlimited').pass).toMatchObject({ budget: null })
  expect(parse('source=accounts&budget=0').pass).toMatchObject({ budget: 0 })
  expect(parse('source=accounts&route=fast&budget=1').pass).toMatchObject({ route: 'auto' })
  const where = 'source=accounts&budget=1&where=t.id > 5'
  expect(parse(where, { dashboard: { allowWhere: true } }).pass).toMatchObject({ where: 't.id > 5' })
})

test.each([
  ['budget=1', 'source'],
  ['source=contacts&source=else&budget=1', 'source'],
  // A run never spends by surprise: an empty field is no budget.
  ['source=contacts', 'budget'],
  ['source=contacts&budget=-1', 'budget'],
  ['source=contacts&budget=1e9', 'budget'],
  ['source=contacts&budget=99999999999999999999', 'budget'],
  ['source=contacts&budget=1&limit=0', 'limit'],
  ['source=contacts&budget=1&limit=1.5', 'limit'],
  ['source=contacts&budget=1&where=true', 'where'],
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

test('a request leads to its run as soon as there is one, however it ended', () => {
  const row = { state: 'waiting', run_id: null, reason: null }
  expect(toRequestProgress(row)).toEqual({ state: 'waiting' })
  expect(toRequestProgress({ ...row, state: 'running' })).toEqual({ state: 'waiting' })
  expect(toRequestProgress({ ...row, state: 'done', run_id: 7 })).toEqual({ state: 'started', run: 7 })
  expect(toRequestProgress({ ...row, state: 'skipped', reason: 'not in time' })).toEqual({
    state: 'ended',
    reason: 'not in time',
  })
})
