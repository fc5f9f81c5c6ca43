import { beforeEach, expect, test } from 'vitest'
import type { RetryState } from '../../../src/domain/row.ts'
import type { RetryOptions, RetryReport } from '../../../src/actions/retry.ts'
import { countStates, createCrm, withAccounts } from '../../support/crm.ts'
import { useFreshHarness } from '../../support/harness.ts'

const FAILED: readonly RetryState[] = ['failed', 'rejected', 'write_rejected']
const isFifth = (email: string | undefined): boolean => /^person\d*[05]@/.test(email ?? '')

const harness = useFreshHarness({
  config: { ...withAccounts, attempts: 1 },
  sandbox: {
    missingShare: 0,
    notFoundShare: 0,
    // Every fifth address fails on its first request.
    plan: (fault, { inputs, nth }) => fault === '500' && nth === 0 && isFifth(inputs[0]),
  },
  prepare: async ({ pool }) => {
    await createCrm(pool, 40, 5)
    await pool.query(
      'alter table crm.contacts add constraint short check (id > 3 or concat(title, phone, seniority, company) = $$$$)',
    )
  },
})
beforeEach(async () => {
  await harness.run({ route: 'sync' })
  // The service rejects inputs for its own reasons: here those of three rows.
  await harness.query(`
    with refused as (
      update fillrate.rows set state = 'rejected', failure = 'rejected', reason = 'invalid_input: no such_mailbox', due_at = null, last_written = null
       where source = 'contacts' and key in ('11', '12', '13') returning lookup_id
    ), forgotten as (delete from fillrate.changes where key in ('11', '12', '13')
    ), blanked as (update crm.contacts set title = null, phone = null, seniority = null, company = null, enriched_at = null where id in (11, 12, 13))
    update fillrate.lookups set state = 'rejected', reason = 'invalid_input: no such_mailbox', record = null, refresh_at = null
     where id in (select lookup_id from refused)`)
})

const retry = async (options: Partial<RetryOptions> & { sources?: never } = {}): Promise<RetryReport> =>
  (await harness.open()).retry({
    states: FAILED,
    reason: null,
    dryRun: false,
    signal: new AbortController().signal,
    ...options,
    sources: [],
  })

const due = (): Promise<number> => harness.count('fillrate.rows where due_at <= now()')

test('only failed rows become due; stored records are written without a call', async () => {
  const before = await countStates(harness)
  expect(before).toMatchObject({ write_rejected: 3, rejected: 3 })
  const failed = before['failed'] ?? 0
  expect(failed).toBeGreaterThan(3)
  expect((await harness.run({ route: 'sync' })).rows.picked).toBe(0)
  await harness.query('alter table crm.contacts drop constraint short')

  const plan = await retry({ dryRun: true })
  expect(await due()).toBe(0)
  expect(plan).toMatchObject({ rows: failed + 6, without_call: 3, skipped: 0 })
  expect(await retry()).toEqual({ ...plan, dry_run: false })
  expect(await due()).toBe(plan.rows)

  const calls = harness.calls()
  const run = await harness.run({ route: 'sync' })
  expect(run.rows).toMatchObject({ picked: plan.rows, enriched: plan.rows })
  expect(run.lookups.requested).toBe(plan.lookups)
  expect(harness.calls() - calls).toBe(plan.lookups)
  expect(await countStates(harness)).toEqual({ enriched: 40 })
})

test('filters by state and by a part of the reason: case-insensitive, not a pattern', async () => {
  expect(await retry({ states: ['rejected'], dryRun: true })).toMatchObject({
    rows: 3,
    without_call: 0,
    lookups: 3,
  })
  expect(await retry({ reason: 'NO SUCH_mailbox', dryRun: true })).toMatchObject({ rows: 3 })
  expect(await retry({ reason: 'no_such', dryRun: true })).toMatchObject({ rows: 0 })
  expect(await retry({ reason: 'short' })).toMatchObject({ rows: 3, without_call: 3 })
  expect(await due()).toBe(3)
})

test('missing or complete rows are left alone, and reported', async () => {
  await harness.query('alter table crm.contacts drop constraint short; delete from crm.contacts where id = 1')
  await harness.query(
    `update crm.contacts set title = 'a', phone = null, seniority = 'c', company = 'd' where id = 2`,
  )
  await harness.query(`update crm.contacts set phone = 'e' where id = 2`)
  expect(await retry({ states: ['write_rejected'] })).toMatchObject({ rows: 1, skipped: 2 })
  expect(await due()).toBe(1)
})
