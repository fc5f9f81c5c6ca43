import { describe, expect, test } from 'vitest'
import type { StatusReport } from '../../../../src/domain/report/status.ts'
import { renderFinding, renderVerdict } from '../../../../src/cli/commands/check.ts'
import { formatCsvLine, renderFailures, type FailureOverview } from '../../../../src/cli/commands/failures.ts'
import { renderStatus } from '../../../../src/cli/views/status.ts'
import { createFinding } from '../../../../src/cli/check/finding.ts'
import { ROW_STATES, type RowState } from '../../../../src/domain/row.ts'
import { onTerminal } from '../terminal.ts'
import { noSpend } from '../../../support/spend.ts'

const now = Date.UTC(2026, 2, 1, 12)
const none = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>

describe('failures', () => {
  const failures: FailureOverview = {
    total: 105,
    reasons: [
      { source: 'contacts', state: 'failed', reason: 'the service answered 500 (4 tries)', rows: 5 },
      { source: 'accounts', state: 'invalid_input', reason: 'domain: a free-mail host', rows: 100 },
    ],
    cells: [
      {
        source: 'contacts',
        column: 'phone',
        reason: 'too_long',
        detail: null,
        description: 'the text is longer than the column allows',
        rows: 12,
        distinct_values: 11,
        values: [{ value: '+47 22 00 00 00', rows: 2 }],
      },
    ],
    rows: [
      {
        source: 'contacts',
        key: '7\u001b[2J',
        state: 'failed',
        reason: null,
        settled_at: new Date(now - 60_000),
      },
    ],
  }

  test('shows reasons with their numbers, how to fix them, then rows', () => {
    const text = renderFailures(failures, onTerminal(100).output, now).join('\n')
    expect(text).toContain('105 rows could not be enriched')
    expect(text).toMatch(/^ +5 {2}failed +contacts +the service answered 500/m)
    expect(text).toMatch(/^ +100 {2}invalid input +accounts +domain: a free-mail host/m)
    expect(text).toMatch(
      /^12 cells skipped\n.*\n +12 {2}phone +the text is longer than the column allows: \+47/m,
    )
    expect(text).toContain('Latest 1 of 105')
    expect(text).toContain('1 min ago')
    expect(text).toContain('--csv')
    expect(text).not.toContain('\u001b')
  })
})

describe('status', () => {
  const view: StatusReport = {
    conditions: [],
    rows: { contacts: { ...none, total: 10, enriched: 7, waiting: 3 } },
    jobs: { completed: 28, in_doubt: 2 },
    deliveries: {},
    quarantined_results: 0,
    deleted: [],
    retired: [],
    running_runs: 0,
    last_run: {
      id: 3,
      trigger: 'manual',
      sources: ['contacts'],
      options: { limit: null, budget: null, where: null, route: 'auto' },
      state: 'failed',
      reason: 'no such host',
      started_at: new Date(now - 120_000),
      finished_at: new Date(now),
      cancelled_by: null,
      version: '1.0.0',
      totals: {},
    },
    slowed_writes: [],
    paused: [
      {
        source: 'contacts',
        paused_at: new Date(now - 120_000),
        paused_by: 'the dashboard',
        reason: null,
      },
    ],
    schedule: [],
    spend: {
      ...noSpend,
      today: { calls: 14, lookups: 1_200, in_doubt: 3, cost: { amount: 60, currency: 'EUR' } },
      last_30_days: { calls: 90, lookups: 8_200, in_doubt: 0, cost: { amount: 410, currency: 'EUR' } },
      budgets: [
        {
          kind: 'live_sync',
          run: null,
          limit: 1_000,
          spent: 812,
          left: 188,
        },
        { kind: 'run', run: 7, limit: 400, spent: 400, left: 0 },
      ],
    },
    limits: [
      {
        service: 'api.example',
        limit: 200,
        window_ms: 2_000,
        observed_at: new Date(now - 5_000),
        status: {
          state: 'fixed_window',
          limit: 200,
          window_ms: 2_000,
          used: 1_052,
          permitted: 1_066,
          utilisation: 0.9868,
          window_used: 143,
          next_window_at: new Date(now + 1_200),
          stall_reason: 'the window is used up',
          throttled: 2,
          shared_key: true,
          overstated: { endpoint: 'bulk', limit: 600, window_ms: 60_000, granted: 100 },
          beside: { limit: 20, window_ms: 1_000 },
          reported_at: new Date(now - 1_000),
          live: true,
        },
      },
    ],
    fill_rate: {
      contacts: {
        eligible: 12,
        columns: [
          { column: 'title', filled: 6 },
          { column: 'attributes.department', filled: 0 },
        ],
        measured_at: new Date(now - 300_000),
      },
      accounts: 'not known: counting takes longer than 30 s',
    },
  }

  test('shows rows by state, fill rate by column, runs, jobs, deliveries and the rate limit', () => {
    const text = renderStatus(view, onTerminal(90).output, now).join('\n')
    expect(text).toMatch(/^contacts +paused 2 min ago by the dashboard$/m)
    expect(text).toMatch(/enriched +7 +70\.0%/)
    expect(text).toMatch(/waiting +3 +30\.0%/)
    expect(text).toMatch(/ever picked +10$/m)
    expect(text).toMatch(/title +6 +50\.0%/)
    expect(text).toMatch(/attributes\.department +0 +0%/)
    expect(text).toContain('counting takes longer than 30 s')
    expect(text).toContain('run 3, failed, started 2 min ago (no such host)')
    expect(text).toContain('30 = 28 completed + 2 in doubt')
    expect(text).toMatch(/Deliveries +none/)
    expect(text).toContain('200 calls in 2 s, observed 5 s ago (api.example)')
    expect(text).toMatch(/Used +98\.7% of the limit, so far\n? *\(?1,052 of the 1,066 permitted calls/)
    expect(text).toMatch(/Waiting +the window is used up/)
    expect(text).toMatch(/Beside it +20 calls in 1 s \(learnt from refusals\)/)
    expect(text).toMatch(/Too high +stated 600 calls in 1 min for bulk, the service grants about 100/)
    expect(text).toContain('change `rate.limit` of the service')
    expect(text).toMatch(
      /Spend +1,200 lookups and 3 in doubt \(60\.00 EUR\) today, 8,200 lookups \(410\.00 EUR\)\s+in 30 days/,
    )
    expect(text).toMatch(/Budgets +live sync today: 188 of 1,000 lookups left/)
    expect(text).toMatch(/run 7: 0 of 400 lookups left \(used up\)/)
  })
})

describe('check', () => {
  const problem = { place: 'DATABASE_URL', found: 'not set', expected: 'an address', todo: 'Set it.' }
  const wrong = createFinding('database', 'error', '1 problem', { problems: [problem] })

  test('each finding has a sign, and a fix', () => {
    const { output } = onTerminal(80)
    expect(renderFinding(createFinding('schema', 'ok', 'up to date'), output)).toEqual([
      '✓ schema            up to date',
    ])
    expect(renderFinding(createFinding('bulk', 'warning', 'off', { todo: 'Set it.' }), output)).toEqual([
      '! bulk              off',
      '                    Set it.',
    ])
    expect(renderFinding(createFinding('schema', 'skipped', 'not checked'), output)[0]).toMatch(/^- schema/)
    expect(renderFinding(wrong, output).join('\n')).toMatch(
      /^✗ database[\s\S]*DATABASE_URL[\s\S]*found +not set[\s\S]*to do +Set it\./,
    )
    expect(renderFinding(createFinding('source with_a_long_name', 'ok', 'fine'), output)).toEqual([
      '✓ source with_a_long_name',
      '                    fine',
    ])
  })

  test('the result counts the errors', () => {
    const { output } = onTerminal(80)
    expect(renderVerdict([wrong, wrong], output).join('')).toContain('2 problems to fix')
    // What a source lacks of grants has a finding of its own.
    const grant = { privileges: ['SELECT'], on: 'crm.contacts', role: 'app' }
    const lacking = createFinding('source', 'error', '1 problem', {
      problems: [{ ...problem, grant } as unknown as typeof problem],
    })
    expect(renderVerdict([lacking, lacking, lacking, wrong], output).join('')).toContain(
      '1 problem to fix before you can run.',
    )
    expect(renderVerdict([createFinding('bulk', 'warning', 'off')], output).join('')).toContain(
      'Ready to run.',
    )
  })
})

describe('CSV', () => {
  test.each([
    [['a', 'b'], 'a,b\r\n'],
    [['a,b', 'say "so"', 'two\nlines', null], '"a,b","say ""so""","two\nlines",\r\n'],
    [['["x",1]'], '"[""x"",1]"\r\n'],
    [['=1+1', '@x', '-5', '+47', '-x'], "'=1+1,'@x,-5,+47,'-x\r\n"],
  ])('%j', (fields, line) => {
    expect(formatCsvLine(fields)).toBe(line)
  })
})
