import { describe, expect, it } from 'vitest'
import type { RunProgress } from '../../../src/runs/counters.ts'
import { mergeProgress } from '../../../src/runs/counters.ts'
import { mergeReports } from '../../../src/runs/group-report.ts'
import type { RunReport, RunStatus } from '../../../src/runs/report.ts'

const report = (run: number, changes: Partial<RunReport> = {}): RunReport => ({
  run,
  status: 'completed',
  reason: null,
  rows: {
    picked: 10,
    waiting: 0,
    enriched: 7,
    unchanged: 1,
    not_found: 2,
    below_confidence: 0,
    invalid_input: 0,
    rejected: 0,
    suppressed: 0,
    write_rejected: 0,
    failed: 0,
  },
  skipped_over_budget: 1,
  lookups: {
    distinct: 9,
    stored: 1,
    requested: 8,
    found: 6,
    not_found: 2,
    rejected: 0,
    failed: 0,
    in_doubt: 0,
  },
  requests: { person: 8, company: 0, bulk: 0, retried: 0, throttled: 0 },
  spend: { calls: 8, lookups: 8, in_doubt: 0, cost: { amount: 0.8, currency: 'EUR' } },
  jobs: { submitted: 0, completed: 0, failed: 0, expired: 0, in_doubt: 0, waiting: 0 },
  cells: { written: 12, protected: 1, skipped: 0 },
  skipped_cells: [],
  rate: { limit: 5, window_ms: 1_000, used: 8, permitted: 8, utilisation: 1 },
  duration_ms: 100,
  ...changes,
})

const ended = (service: string, one: RunReport) => ({ service, run: one.run, report: one, error: null })

describe('the report of several services', () => {
  it('adds up what each did, and names each', () => {
    const merged = mergeReports([ended('acme', report(3)), ended('beta', report(4, { duration_ms: 250 }))])
    expect(merged.run).toBe(3)
    expect(merged.rows.picked).toBe(20)
    expect(merged.lookups.requested).toBe(16)
    expect(merged.cells.written).toBe(24)
    expect(merged.spend.cost).toEqual({ amount: 1.6, currency: 'EUR' })
    expect(merged.duration_ms).toBe(250)
    expect(merged.services?.map(({ service, run, rows }) => [service, run, rows])).toEqual([
      ['acme', 3, 10],
      ['beta', 4, 10],
    ])
  })

  it('lists a reason once, whichever services met it', () => {
    const group = (rows: number, values: readonly string[]) => ({
      source: 'people',
      column: 'title',
      reason: 'too_long' as const,
      detail: null,
      description: 'the text is longer than the column allows',
      rows,
      distinct_values: values.length,
      values: values.map((value) => ({ value, rows: 1 })),
    })
    const merged = mergeReports([
      ended('acme', report(1, { skipped_cells: [group(2, ['Engineer', 'Analyst'])] })),
      ended(
        'beta',
        report(2, { skipped_cells: [group(1, ['Engineer']), { ...group(9, ['x']), column: 'phone' }] }),
      ),
    ])
    expect(merged.skipped_cells).toMatchObject([
      { column: 'phone', rows: 9 },
      {
        column: 'title',
        rows: 3,
        distinct_values: 2,
        values: [
          { value: 'Engineer', rows: 2 },
          { value: 'Analyst', rows: 1 },
        ],
      },
    ])
  })

  it('adds no amounts of two currencies, nor one that is unknown', () => {
    for (const cost of [null, { amount: 1, currency: 'USD' }]) {
      const spend = { calls: 1, lookups: 1, in_doubt: 0, cost }
      const merged = mergeReports([ended('acme', report(1)), ended('beta', report(2, { spend }))])
      expect(merged.spend.cost).toBeNull()
    }
  })

  it('ends as the one that needs a person most', () => {
    const statuses: RunStatus[] = [
      'completed',
      'budget_reached',
      'out_of_credits',
      'interrupted',
      'unauthorized',
      'failed',
    ]
    for (const [n, worse] of statuses.entries())
      for (const better of statuses.slice(0, n))
        for (const order of [
          [worse, better],
          [better, worse],
        ] as const)
          expect(
            mergeReports(order.map((status, run) => ended(`s${run}`, report(run, { status })))).status,
          ).toBe(worse)
  })

  it('says which service failed, and what the others did', () => {
    const failed = { service: 'beta', run: 2, report: null, error: new Error('no route to host') }
    const merged = mergeReports([ended('acme', report(1)), failed])
    expect(merged.status).toBe('failed')
    expect(merged.reason).toContain('beta: no route to host')
    expect(merged.rows.enriched).toBe(7)
    expect(() => mergeReports([failed])).toThrow('no route to host')
  })
})

describe('the progress of several services', () => {
  const progress: RunProgress = {
    picked: 100,
    finished: 60,
    requested: 50,
    submitted: 0,
    jobsWaiting: 0,
    picking: false,
    written: 70,
    rate: null,
    stallReason: null,
    elapsedMs: 1_000,
  }

  it('counts a row once, and as finished when it waits for no service', () => {
    const later = { ...progress, picked: 0, finished: 0, requested: 30, picking: true, stallReason: 'down' }
    const merged = mergeProgress([
      ['acme', progress, 40],
      ['beta', later, 10],
    ])
    expect(merged).toMatchObject({ picked: 100, finished: 50, requested: 80, picking: true })
    expect(merged.services).toMatchObject([
      { service: 'acme', requested: 50 },
      { service: 'beta', requested: 30, stallReason: 'down' },
    ])
  })
})
