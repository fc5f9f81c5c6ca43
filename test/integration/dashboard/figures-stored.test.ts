import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// Figures that are computed from what is stored, and those in the texts of conditions, held against the SQL that each one is, on
// each channel that shows it. Beside `figures.test.ts`, which holds those of real work.

const SCOPE = 'api.example.com 62af8704'
const { contacts, accounts } = withAccounts.sources
const config = {
  ...withAccounts,
  sources: { contacts: { ...contacts, follow: true }, accounts },
  liveSync: { budget: 100 },
}
let at: string
let stop: Stop

const harness = useHarness({ config, prepare: ({ pool }) => createCrm(pool, 60, 5) })
beforeAll(async () => {
  await harness.run()
  ;({ at, stop } = await serveApp(await harness.open()))
})
afterAll(() => stop())

const read = async (path: string): Promise<string> => (await fetch(at + path)).text()
const readStatus = async () => JSON.parse(await read('/api/status')) as StatusReport
const words = async (path: string): Promise<string> =>
  (await read(path)).replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
const metric = async (name: string): Promise<number> =>
  Number(
    (await read('/metrics'))
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length),
  )
async function number(text: string, values: unknown[] = []): Promise<number> {
  const [row] = await harness.query<{ n: number | string }>(text, values)
  return Number(row?.n)
}

test('the age of the oldest delivery that is not settled is that of the table', async () => {
  const client = await harness.database.pool.connect()
  try {
    // Settling would take it at once: it waits for the table, which can be read.
    for (;;) {
      await client.query(`insert into fillrate.deliveries (event_id, state, received_at, body)
        values (gen_random_uuid()::text, 'received', now() - interval '90 s', '{}')`)
      await client.query('begin; lock table fillrate.deliveries in exclusive mode')
      const { rowCount } = await client.query(`select from fillrate.deliveries where state = 'received'`)
      if (rowCount === 1) break
      await client.query('rollback')
    }
    const age = `select extract(epoch from clock_timestamp() - min(received_at)) as n from fillrate.deliveries where state = 'received'`
    const before = await number(age)
    const shown = await metric('fillrate_oldest_unsettled_delivery_seconds')
    expect(shown).toBeGreaterThanOrEqual(before)
    expect(shown).toBeLessThanOrEqual(await number(age))
  } finally {
    await client.query('rollback')
    client.release()
  }
  await expect.poll(() => metric('fillrate_oldest_unsettled_delivery_seconds')).toBe(0)
})

test('the budgets of live sync, of a run and of a scheduled run are those of the tables', async () => {
  const runs = await harness.query<{ id: number; kind: string; limit: number; spent: number }>(`
    with run as (
      insert into fillrate.runs (scopes, trigger, sources, state, owner, lease_token, leased_until, finished_at, options, budget_name, bound)
      select '{"0": "${SCOPE}"}', trigger, '{contacts}', case when trigger = 'follow' then 'completed' else 'running' end, 'x',
             gen_random_uuid(), now() + interval '1 hour', case when trigger = 'follow' then now() end,
             jsonb_build_object('budget', budget, 'follow', trigger = 'follow'), name,
             jsonb_build_object('isInCredits', false, 'limit', budget, 'services', '{}'::jsonb)
        from (values ('follow', 100, 'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD')), ('manual', 50, null), ('schedule', 30, 'night'))
             v (trigger, budget, name)
      returning id, trigger, options
    ), spent as (
      insert into fillrate.spend (run_id, service_id, source, endpoint, lookups, credits)
      select id, 0, 'contacts', 'person', 33 - id % 7, 33 - id % 7 from run returning run_id, credits
    )
    select run.id::int, case trigger when 'follow' then 'live_sync' when 'manual' then 'run' else trigger end as kind,
           (options ->> 'budget')::int as limit, spent.credits::int as spent
      from run join spent on spent.run_id = run.id order by run.id`)
  const expected = runs.map(({ id, ...one }) => ({ ...one, run: one.kind === 'live_sync' ? null : id }))
  expect(expected.map(({ kind }) => kind)).toEqual(['live_sync', 'run', 'schedule'])
  await expect.poll(async () => (await readStatus()).spend.budgets.length).toBe(3)
  const { budgets } = (await readStatus()).spend
  for (const { kind, run, limit, spent } of expected) {
    const left = limit - spent
    expect(budgets).toContainEqual(expect.objectContaining({ kind, run, limit, spent, left }))
    // What was read a moment ago may be shown again.
    await expect.poll(() => metric(`fillrate_budget_remaining_lookups{budget="${kind}"}`)).toBe(left)
  }
  // What is under way is left to nobody else, and not spent; and one budget stands once.
  const manual = expected.find(({ kind }) => kind === 'run')
  await harness.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id, source, lease_token, leased_until)
     select 'email', 'leased' || n, '{}', 'leased', $1::bigint, 'contacts', gen_random_uuid(), now() + interval '1 hour'
       from generate_series(1, 4) n`,
    [manual?.run],
  )
  const { limit = 0, spent = 0, run } = manual ?? {}
  const own = async () => (await readStatus()).spend.budgets.filter((one) => one.run === run)
  await expect.poll(own, { timeout: 20_000 }).toMatchObject([{ limit, spent, left: limit - spent - 4 }])
  await harness.query(`delete from fillrate.lookups where key like 'leased%'`)
  await harness.query('delete from fillrate.runs where id = any($1)', [runs.map(({ id }) => id)])
  await harness.query('delete from fillrate.spend where run_id = any($1)', [runs.map(({ id }) => id)])
})

const WAITING = `select count(*) as n from fillrate.rows where state = 'waiting'`
/** Each condition: what makes it, and each figure of its text as the words before and after it, and the SQL that it is. */
const CONDITIONS: readonly [kind: string, begin: string, figures: readonly [RegExp, string][]][] = [
  // Before those that explain them: they count from their end.
  [
    'late',
    `insert into fillrate.changed_rows (changed_at, source, keys, is_import)
     values (now() - interval '3 h', 'contacts', '{1,2,3}', false), (now() - interval '1 h', 'contacts', '{4}', false)`,
    [
      [
        /(\d+) changes in the database/,
        `select sum(cardinality(keys)) as n from fillrate.changed_rows where source = 'contacts'`,
      ],
      [
        /is (\d+) h /,
        `select floor(extract(epoch from now() - min(changed_at)) / 3600) as n from fillrate.changed_rows`,
      ],
    ],
  ],
  [
    'service_failing',
    `insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms, reason, cause)
     values ('${SCOPE}', now() + interval '20 seconds', 5000, 'HTTP 503', 'unreachable')`,
    [[/(\d+) rows wait, and will be retried/, WAITING]],
  ],
  [
    'writes_rejected',
    `update fillrate.rows set state = 'write_rejected', failure = 'write_rejected', reason = 'not so' where source = 'contacts' and key::int between 11 and 41 and state = 'enriched'`,
    [
      [
        /rejects (\d+) rows of contacts/,
        `select count(*) as n from fillrate.rows where source = 'contacts' and state = 'write_rejected'`,
      ],
    ],
  ],
]

test('the figures in the texts of conditions are those of the tables', async () => {
  // Rows that wait: a run whose key is refused leaves what it has picked.
  await harness.query(
    `insert into crm.contacts (email) select 'late' || n || '@example.com' from generate_series(1, 9) n`,
  )
  harness.sandbox.configure({ keys: ['another'] })
  expect(await harness.run({ sources: ['contacts'] })).toMatchObject({ status: 'unauthorized' })
  expect(await number(WAITING)).toBe(9)
  // The refused key explains what follows.
  await harness.query('delete from fillrate.conditions; delete from fillrate.circuit_breakers')
  for (const [kind, begin, figures] of CONDITIONS) {
    await harness.query(begin)
    for (const [pattern, sql] of figures) {
      await expect.poll(async () => (await readStatus()).conditions.map((one) => one.kind)).toContain(kind)
      const condition = (await readStatus()).conditions.find((one) => one.kind === kind)
      const text = `${condition?.title}. ${condition?.meaning}`
      expect([text, Number(pattern.exec(text)?.[1])]).toEqual([text, await number(sql)])
      // What was read a moment ago may be shown again.
      await expect.poll(() => words('/')).toContain(pattern.exec(text)?.[0])
    }
    await harness.query('delete from fillrate.circuit_breakers')
  }
})
