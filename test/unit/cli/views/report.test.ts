import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RunReport } from '../../../../src/domain/report/run.ts'
import { renderReport, suggestAfterRun } from '../../../../src/cli/views/report.ts'
import { textWidth } from '../../../../src/cli/terminal.ts'
import { ROW_STATES, type RowState } from '../../../../src/domain/row.ts'
import { onTerminal, unstyled } from '../terminal.ts'

const none = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>
const report: RunReport = {
  run: 12,
  status: 'completed',
  reason: null,
  rows: {
    ...none,
    picked: 5_000,
    enriched: 3_911,
    unchanged: 402,
    not_found: 551,
    below_confidence: 36,
    invalid_input: 92,
    failed: 4,
    waiting: 4,
  },
  skipped_over_budget: 0,
  lookups: {
    distinct: 4_432,
    stored: 812,
    requested: 3_620,
    found: 3_069,
    not_found: 540,
    rejected: 8,
    failed: 3,
    in_doubt: 1,
  },
  spend: { calls: 0, lookups: 0, in_doubt: 0, cost: null },
  requests: { person: 402, company: 620, bulk: 30, retried: 14, throttled: 2 },
  jobs: { submitted: 30, completed: 28, failed: 2, expired: 0, in_doubt: 1, waiting: 0 },
  cells: { written: 9_221, protected: 312, skipped: 4 },
  skipped_cells: [],
  rate: { limit: 200, window_ms: 2_000, used: 1_052, permitted: 1_066, utilisation: 0.9868 },
  duration_ms: 41_234,
}
const textOf = (changes: Partial<RunReport> = {}, columns = 100): string =>
  renderReport({ ...report, ...changes }, onTerminal(columns).output).join('\n')
const numbers = (text: string): number[] =>
  [...text.matchAll(/[\d,]*\d/g)].map((match) => Number(match[0].replaceAll(',', '')))

test('the printed rows by state add up to the rows picked', () => {
  const counts = fc.array(fc.nat(2_000_000), { minLength: ROW_STATES.length, maxLength: ROW_STATES.length })
  fc.assert(
    fc.property(counts, fc.constantFrom(40, 80, 120), (list, columns) => {
      const states = Object.fromEntries(ROW_STATES.map((state, n) => [state, list[n] ?? 0])) as Record<
        RowState,
        number
      >
      const picked = list.reduce((sum, n) => sum + n, 0)
      fc.pre(picked > 0)
      const lines = textOf({ rows: { picked, ...states } }, columns).split('\n')
      const rule = lines.findIndex((line) => line.includes('───'))
      const shown = lines.slice(2, rule).map((line) => numbers(line)[0] ?? 0)
      expect(shown.reduce((sum, n) => sum + n, 0)).toBe(picked)
      expect(numbers(lines[rule + 1] ?? '')).toEqual([picked])
    }),
  )
})

test('every printed sum is right', () => {
  const sums = textOf()
    .split('\n')
    .filter((line) => line.includes(' = '))
  expect(sums.length).toBeGreaterThan(2)
  for (const line of sums) {
    const [whole = '', parts = ''] = line.replace(/\(.*\)/, '').split(' = ')
    expect({ line, sum: numbers(parts).reduce((sum, n) => sum + n, 0) }).toEqual({
      line,
      sum: numbers(whole)[0],
    })
  }
})

test('each of several services has a line, and what the last one filled is said with its cost', () => {
  const { status, reason, lookups, spend, cells, rate } = report
  const acme = { service: 'acme', rows: 3_000, status, reason, lookups, spend, cells, rate }
  const cost = { amount: 12, currency: 'EUR' }
  const pdl = { ...acme, service: 'pdl', spend: { ...spend, cost }, cells: { ...cells, written: 40 } }
  const text = textOf({ services: [acme, pdl] })
  expect(text).toMatch(/pdl +3,620 +812 +3,069 +40 +12\.00 EUR +0\.30 EUR/)
  expect(text).toContain('The last service, pdl, filled 40 cells for 12.00 EUR.')
})

describe('the end of a run', () => {
  test.each([
    ['completed', 'Run 12 completed in 41 s'],
    ['budget_reached', 'Run 12 stopped at its budget after 41 s'],
    ['interrupted', 'Run 12 interrupted after 41 s, state saved'],
    ['unauthorized', 'Run 12 stopped after 41 s, because the service rejects the API key'],
    ['failed', 'Run 12 failed after 41 s'],
  ] as const)('%s', (status, said) => {
    expect(textOf({ status }).split('\n')[0]).toBe(said)
  })
})

test.each([44, 60, 80, 120])('fits %i columns, with colours and without', (columns) => {
  for (const color of [false, true]) {
    const { output } = onTerminal(columns, color)
    for (const line of renderReport(report, output)) expect(textWidth(line)).toBeLessThanOrEqual(columns)
  }
  const colored = renderReport(report, onTerminal(columns, true).output)
  expect(colored.map((line) => unstyled(line).trimEnd()).join('\n')).toBe(textOf({}, columns))
})

describe('a dry run', () => {
  const column = (source: string, name: string, written: number) => ({ source, column: name, written })
  const dry = {
    columns: [
      column('contacts', 'title', 3_100),
      column('contacts', 'phone', 0),
      column('accounts', 'industry', 400),
    ],
    sample: [
      {
        source: 'contacts',
        key: '4711',
        confidence: null,
        cells: [{ column: 'title', before: 'CEO', after: 'CTO' }],
        touched: [],
      },
    ],
  }

  test('says that nothing was written, and shows what would be written', () => {
    const text = textOf({ dry_run: dry })
    expect(text.split('\n').slice(0, 2)).toEqual([
      'Dry run 12 completed in 41 s',
      '  Nothing was written to your tables. A run would have these results:',
    ])
    expect(text).toContain('9,221 would be written')
    expect(text).toMatch(/\n {2}contacts\.title +3,100\n {2}accounts\.industry +400\n\n/)
    expect(text).toMatch(/\n {2}4711 {2}contacts\n {4}title +CEO +CTO\n/)
    expect(text).toMatch(/\n {2}fillrate run +writes the changes/)
  })
})

describe('suggested commands', () => {
  const after = (changes: Partial<RunReport>): string[] =>
    suggestAfterRun({
      ...report,
      rows: { ...none, picked: 5 },
      cells: { written: 3, protected: 2, skipped: 0 },
      jobs: { ...report.jobs, in_doubt: 0 },
      ...changes,
    }).map(([type]) => type)

  test.each([
    ['none, if nothing is open', {}, []],
    ['failures', { rows: { ...none, picked: 5, rejected: 1, write_rejected: 1 } }, ['fillrate failures']],
    [
      'failures, for skipped cells',
      { cells: { written: 3, protected: 2, skipped: 1 } },
      ['fillrate failures'],
    ],
    ['run, if rows are waiting', { rows: { ...none, picked: 5, waiting: 1 } }, ['fillrate run']],
    [
      'jobs, if jobs wait for a webhook',
      { rows: { ...none, picked: 5, waiting: 1 }, jobs: { ...report.jobs, waiting: 1 } },
      ['fillrate status', 'fillrate run'],
    ],
    ['plan, at the budget', { status: 'budget_reached', skipped_over_budget: 5 }, ['fillrate plan']],
    [
      'plan, if a source was not read to its end',
      { status: 'budget_reached', skipped_over_budget: 5, unread_over_budget: ['contacts'] },
      ['fillrate plan'],
    ],
    [
      'check with a call, if the service rejects the key',
      { status: 'unauthorized' },
      ['fillrate check --call email=…'],
    ],
  ] as const)('%s', (_, changes, types) => {
    expect(after(changes)).toEqual(types)
  })
})
