import { expect, test } from 'vitest'
import * as pauses from '../../../src/store/source-state.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, stateSum, useFreshHarness } from '../../support/harness.ts'
import { loseCommits } from '../../support/lost-commits.ts'

const harness = useFreshHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 200) })

/** A run of another process, alive until `die`, that holds rows of `contacts` with lookups that are not yet due. */
async function anotherRun(rows: number): Promise<{ die(): Promise<void>; held(): Promise<number> }> {
  const runs = await harness.query<{ id: number }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
     values ('manual', '{contacts}', 'running', 'another', gen_random_uuid(), now() + interval '1 hour') returning id`,
  )
  const id = runs[0]?.id
  await harness.query(
    `with inserted as (
       insert into fillrate.lookups (kind, key, input, state, run_id, not_before)
       select 'email', e, jsonb_build_object('email', e), 'pending', $1, 'infinity'
         from (select 'another' || n || '@example.com' as e from generate_series(1, $2::int) n) emails
       returning id
     )
     insert into fillrate.rows (source, key, lookup_id, state, run_id) select 'contacts', n::text, id, 'waiting', $1
       from (select id, row_number() over (order by id) as n from inserted) numbered`,
    [id, rows],
  )
  return {
    die: async () => {
      await harness.query(`update fillrate.runs set leased_until = now() - interval '1 s' where id = $1`, [
        id,
      ])
    },
    held: async () => {
      const left = await harness.query(`select from fillrate.rows where run_id = $1`, [id])
      return left.length
    },
  }
}

/** Rows that the latest run has finished so far. */
async function settledByLatest(): Promise<number> {
  const rows = await harness.query(
    `select from fillrate.rows where run_id = (select max(id) from fillrate.runs) and state <> 'waiting'`,
  )
  return rows.length
}

test('a run with a limit takes that many rows in all, including abandoned ones', async () => {
  const another = await anotherRun(150)
  await another.die()
  const report = await harness.run({ limit: 60, route: 'sync' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 60 } })
  expect(stateSum(report)).toBe(60)
  expect(await another.held()).toBe(90)
  expect(harness.calls()).toBeLessThanOrEqual(60)
})

test('a run that takes over abandoned rows stays within its limit', async () => {
  const another = await anotherRun(50)
  const app = await harness.open()
  const running = app.run(runRequest({ limit: 160, route: 'sync' }))
  await expect.poll(settledByLatest).toBe(150)
  await another.die()
  expect(await running).toMatchObject({ status: 'completed', rows: { picked: 160 } })
  expect(await another.held()).toBe(40)
})

test('a page whose COMMIT got no response counts against the limit', async () => {
  const lost = loseCommits(/insert into fillrate\.lookups/, 1)
  const report = await harness.run({ limit: 60, route: 'sync' }).finally(() => lost.end())
  expect(lost.left()).toBe(0)
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 60 } })
})

test('a run takes over no rows of a source paused meanwhile', async () => {
  const another = await anotherRun(50)
  const app = await harness.open()
  const running = app.run(runRequest({ route: 'sync' }))
  await expect.poll(settledByLatest).toBe(150)
  await pauses.pauseSources(harness.database.db, ['contacts'], { by: 'a test', reason: null })
  await another.die()
  expect(await running).toMatchObject({ status: 'completed', rows: { picked: 150 } })
  expect(await another.held()).toBe(50)
})

test('a run shows only the jobs that its own rows wait for', async () => {
  await harness.query(
    `insert into fillrate.jobs (key, job_id, state, size, lookup_ids, submitted_at, deadline_at)
     values (gen_random_uuid(), 'another', 'submitted', 1, '{1}', now(), now() + interval '1 hour')`,
  )
  const shown: number[] = []
  const report = await harness.run({ route: 'sync', onProgress: (one) => shown.push(one.jobsWaiting) })
  expect(report.status).toBe('completed')
  expect(new Set(shown)).toEqual(new Set([0]))
})
