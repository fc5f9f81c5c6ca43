import { expect, test } from 'vitest'
import { runExitCode } from '../../../src/runs/report.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness, stateSum } from '../../support/harness.ts'
import { loseCommits } from '../../support/lost-commits.ts'

const { budget: _, ...config } = crmConfig
const harness = useHarness({ config, prepare: ({ pool }) => createCrm(pool, 500) })

/** What is counted of a run, in Postgres. */
async function spent(run: number): Promise<number | undefined> {
  const rows = await harness.query<{ spent: number }>(
    'select sum(credits)::float8 as spent from fillrate.spend where run_id = $1',
    [run],
  )
  return rows[0]?.spent
}

test('a run without a budget is rejected before any request', async () => {
  const app = await harness.open()
  await expect(app.run(runRequest())).rejects.toMatchObject({
    name: 'ConfigProblems',
    problems: [{ place: 'budget', found: 'none' }],
  })
  expect(harness.calls()).toBe(0)
})

test('a run stops exactly at its budget, and the next one continues', async () => {
  const first = await harness.run({ budget: 120, route: 'sync' })
  expect(first.status).toBe('budget_reached')
  expect(runExitCode(first)).toBe(4)
  expect(first.lookups.requested).toBe(120)
  expect(first.rows.waiting).toBe(0)
  expect(stateSum(first)).toBe(first.rows.picked)
  expect(first.skipped_over_budget + first.rows.picked).toBe(500)
  expect(harness.sandbox.stats().requests['POST /v1/person/enrich']).toBeDefined()
  expect(harness.calls()).toBe(120)

  const second = await harness.run({ budget: 'unlimited', route: 'sync' })
  expect(second.status).toBe('completed')
  expect(second.lookups.requested).toBe(450 - 120)
  expect(first.rows.picked + second.rows.picked).toBe(500)
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test('rows that cost nothing are picked with a budget of zero', async () => {
  await harness.query(`insert into crm.contacts (email) values ('person3@example.com'), ('new@example.com')`)
  const report = await harness.run({ budget: 0 })
  expect(report).toMatchObject({
    status: 'budget_reached',
    skipped_over_budget: 1,
    rows: { picked: 1 },
    lookups: { requested: 0 },
  })
})

test('a page whose COMMIT got no response is charged once', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'lost' || n || '@example.com' from generate_series(1, 3000) n`,
  )
  const before = harness.calls()
  const lost = loseCommits(/insert into fillrate\.lookups/, 2)
  const report = await harness.run({ budget: 2_100, route: 'sync' }).finally(() => lost.end())
  expect(lost.left()).toBe(0)
  expect(report.status).toBe('budget_reached')
  expect(report.lookups.requested).toBe(2_100)
  expect(harness.calls() - before).toBe(2_100)
  expect(await spent(report.run)).toBe(2_100)
})

test('lookups taken over from a dead run are charged once if the COMMIT gets no response', async () => {
  // A run of another process holds the lookups of these rows, not yet due, and dies while this one waits.
  await harness.query(
    `insert into crm.contacts (email) select 'left' || n || '@example.com' from generate_series(1, 40) n`,
  )
  const rows = await harness.query<{ id: number }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
     values ('manual', '{elsewhere}', 'running', 'another', gen_random_uuid(), now() + interval '1 hour') returning id`,
  )
  const dead = rows[0]?.id
  await harness.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id, not_before)
     select 'email', e, jsonb_build_object('email', e), 'pending', $1, 'infinity'
       from (select 'left' || n || '@example.com' as e from generate_series(1, 40) n) emails`,
    [dead],
  )
  const before = harness.calls()
  const lost = loseCommits(/update fillrate\.lookups l set run/, 1)
  const app = await harness.open()
  const running = app.run(runRequest({ budget: 30, route: 'sync', where: `t.email like 'left%'` }))
  await expect
    .poll(async () => {
      const held = await harness.query(
        `select from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id where l.run_id = $1`,
        [dead],
      )
      return held.length
    })
    .toBe(40)
  // In one statement: the run does not wait for late lookups once no other run holds them.
  await harness.query(
    `with due as (update fillrate.lookups set not_before = null where run_id = $1 and state = 'pending')
     update fillrate.runs set leased_until = now() - interval '1 s' where id = $1`,
    [dead],
  )
  const report = await running.finally(() => lost.end())
  expect(lost.left()).toBe(0)
  expect(report).toMatchObject({ status: 'budget_reached', lookups: { requested: 30 } })
  expect(harness.calls() - before).toBe(30)
  expect(await spent(report.run)).toBe(30)
})
