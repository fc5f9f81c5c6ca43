import { describe, expect, test } from 'vitest'
import type { Plan } from '../../../../src/domain/report/plan.ts'
import { renderDiff } from '../../../../src/cli/views/report.ts'
import { renderPlan } from '../../../../src/cli/commands/plan.ts'
import { onTerminal } from '../terminal.ts'

const contacts = {
  source: 'contacts',
  table: 6_540,
  without_key: 0,
  filtered_out: 500,
  conditions: [],
  conditions_error: null,
  where_out: 40,
  rows: 6_000,
  complete: 812,
  fresh: 1_201,
  recently_enriched: null,
  held: 0,
  stopped_at: null,
  picked: 3_987,
  invalid_input: { 'email: no @': 80, 'no input': 12 },
  suppressed: 3,
  valid_input: 3_892,
}
const plan: Plan = {
  sources: [contacts],
  paused: [],
  left_out: [],
  lookups: {
    distinct: 3_604,
    stored: 400,
    to_request: { email: 2_900, linkedin_url: 204, name_company: 100, domain: 0 },
    requested: 3_204,
    is_estimate: false,
  },
  calls: { person: 304, company: 0, bulk: 29, total: 333 },
  cost: {
    lookups: 3_000,
    max_lookups: 3_000,
    max_amount: null,
    budget: 3_000,
    beyond_budget: 204,
  },
  time: { limit: 200, window_ms: 2_000, ms: 2_000, max_ms: 2_000 },
}
const textOf = (changes: Partial<Plan> = {}, budget: Parameters<typeof renderPlan>[2] = 3_000): string =>
  renderPlan({ ...plan, ...changes }, onTerminal(100).output, budget).join('\n')

test('rows that another program has enriched are shown apart, with the reason', () => {
  const stamped = { rows: 1_000, reason: 'enriched_at is less than 90 d old' }
  const text = textOf({ sources: [{ ...contacts, recently_enriched: stamped }] })
  expect(text).toMatch(/− fresh +201 +looked up before/)
  expect(text).toMatch(/− recent +1,000 +enriched_at is less than 90 d old/)
})

test('a price turns lookups into money', () => {
  const max_amount = { amount: 61.7, currency: 'EUR' }
  expect(textOf({ cost: { ...plan.cost, max_amount } })).toMatch(
    /Cost +3,000 lookups, at most 61\.70 EUR \(204 lookups beyond the budgets\)/,
  )
  expect(textOf({ cost: { ...plan.cost, max_lookups: 3_400, max_credits: 1_700, max_amount } })).toMatch(
    /Cost +3,000 to 3,400 lookups, at most 1,700 credits, 61\.70 EUR/,
  )
})

test('each source is a funnel whose numbers add up', () => {
  const lines = textOf().split('\n')
  const steps = lines.slice(1, lines.indexOf('')).map((line) => {
    const [, sign = '', number = ''] = /^ {2}([ −=]) [a-z ]+?([\d,]+)/.exec(line) ?? []
    return { sign, rows: Number(number.replaceAll(',', '')) }
  })
  const sums = steps.filter((step) => step.sign !== '−').map((step) => step.rows)
  // What is left at each sum, by taking away what stands before it.
  let left = steps[0]?.rows ?? 0
  const computed = steps.flatMap(({ sign, rows }) => {
    if (sign === '−') left -= rows
    return sign === '−' ? [] : [left]
  })
  expect(sums).toEqual(computed)
  expect(sums).toEqual([contacts.table, contacts.rows, contacts.picked, contacts.valid_input])
  expect(lines.join('\n')).toMatch(/− invalid input +80 {2}email: no @\n {2}− invalid input +12 {2}no input/)
})

test('rows without a key are no filtered rows', () => {
  const keyless = textOf({ sources: [{ ...contacts, without_key: 272, filtered_out: 228 }] })
  expect(keyless).toMatch(/− without a key +272 {2}NULL in a column of the key.*\n {2}− filtered out +228 /)
})

test('lookups that the run’s budget would pay are beyond the budgets of services', () => {
  const cost = { ...plan.cost, lookups: 11, max_lookups: 11, beyond_budget: 27 }
  expect(textOf({ cost: { ...cost, budget: 100 } }, 100)).toContain('(27 lookups beyond the budgets)')
  expect(textOf({ cost: { ...cost, budget: null } }, 'unlimited')).toContain(
    '(27 lookups beyond the budgets)',
  )
})

test('a plan that stops at the limit says what it read, and nothing of the rest', () => {
  const unread = { table: null, without_key: null, filtered_out: null, where_out: null }
  const limited = textOf({ sources: [{ ...contacts, ...unread, stopped_at: 'limit' }] })
  expect(limited).toMatch(/^contacts\n {4}read +6,000 {2}eligible rows, up to the limit\n/)
})

test('shows rows before and after, cell by cell', () => {
  const cell = (column: string, before: unknown, after: unknown) => ({ column, before, after })
  const row = (key: string) => ({
    source: 'contacts',
    key,
    confidence: 0.93,
    cells: [cell('title', null, 'CTO'), cell('tags', ['a'], ['a', 'b']), cell('note', ' ', '\u001b[2Jx')],
  })
  expect(renderDiff([row('1'), row('2')], onTerminal(80).output)).toEqual([
    '    column  before  after',
    '  1  contacts, confidence 0.93',
    '    title   —       CTO',
    '    tags    ["a"]   ["a","b"]',
    '    note    " "     \ufffd[2Jx',
    '  2  contacts, confidence 0.93',
    '    title   —       CTO',
    '    tags    ["a"]   ["a","b"]',
    '    note    " "     \ufffd[2Jx',
  ])
})

describe('several services', () => {
  const service = (name: string, certain: number) => ({
    service: name,
    lookups: { certain, max: 3_000 },
    max_amount: { amount: 60, currency: 'EUR' },
  })
  const cost = { ...plan.cost, lookups: 4_200, max_lookups: 9_000, budget: null, beyond_budget: 0 }
  const services = [service('acme', 3_000), service('pdl', 1_200), service('last', 0)]
  const several: Plan = { ...plan, cost, services }

  test('each has a line with what is certain and the most', () => {
    const text = textOf(several, 'unlimited')
    expect(text).toMatch(/acme +3,000 +3,000 +60\.00 EUR/)
    expect(text).toMatch(/pdl +1,200 +3,000 +60\.00 EUR/)
    expect(text).toMatch(/last +0 +3,000/)
    expect(text).toContain('4,200 to 9,000 lookups')
  })
})
