import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RunReport } from '../../../src/runs/report.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, startHarness, stateSum, type Harness } from '../../support/harness.ts'

/** A user's way to enrich each contact once: a stamp, and a filter on it. */
const once = {
  ...crmConfig.sources.contacts,
  where: `t.first_name = 'Ada' and (t.enriched_at is null or t.enriched_at < now() - interval '90 days')`,
}
const config = { ...crmConfig, sources: { contacts: once } }

let harness: Harness
beforeAll(async () => {
  harness = await startHarness({ config, prepare: ({ pool }) => createCrm(pool, 0) })
})
afterAll(() => harness.close())
beforeEach(async () => {
  await query(
    'truncate crm.contacts, fillrate.source_cursors, fillrate.rows, fillrate.lookups, fillrate.changes cascade',
  )
  await query(`
    insert into crm.contacts (email, first_name)
    select 'person' || n || '@x.example', 'Ada' from generate_series(1, 20) n`)
})

const query = async <Row>(text: string): Promise<Row[]> =>
  (await harness.database.pool.query(text)).rows as Row[]

const calls = (): number => {
  const { calls } = harness.sandbox.stats()
  return calls.accepted + calls.refused
}

async function run(changes: object = config): Promise<RunReport & { calls: number }> {
  const before = calls()
  const app = await harness.open({ config: changes })
  const report = await app.run(runRequest({ route: 'sync' }))
  await app.close()
  expect(stateSum(report)).toBe(report.rows.picked)
  return { ...report, calls: calls() - before }
}

describe('a row that leaves the source between pick and write', () => {
  const { phone, ...others } = once.outputs
  const twoSources = {
    ...config,
    sources: {
      contacts: { ...once, outputs: others },
      phones: { ...once, outputs: { phone } },
    },
  }

  test('is no failure, whatever made it leave, and is written from its record when it is back', async () => {
    const report = await run(twoSources)
    expect(report).toMatchObject({
      status: 'completed',
      rows: { picked: 40, write_rejected: 0, failed: 0 },
      cells: { skipped: 0 },
      calls: 20,
    })
    const left = `reason = 'it left the source before it was written'`
    const states = await query(
      `select distinct state, input_hash, due_at, cells_skipped from fillrate.rows where ${left}`,
    )
    expect(states).toEqual([{ state: 'unchanged', input_hash: null, due_at: null, cells_skipped: 0 }])
    await query(`update crm.contacts set enriched_at = null`)
    expect(await run(twoSources)).toMatchObject({ calls: 0 })
    expect(await query(`select key from fillrate.rows where ${left}`)).toEqual([])
    const missing = await query(`
      select c.id from crm.contacts c join fillrate.rows r on r.key = c.id::text join fillrate.lookups l on l.id = r.lookup_id
       where l.record ->> 'phone' is not null and phone is null or l.record ->> 'title' is not null and title is null`)
    expect(missing).toEqual([])
  })

  test('and that is deleted is no failure either', async () => {
    const app = await harness.open()
    await app.run(runRequest({ route: 'sync', dryRun: true } as object))
    await query(`delete from crm.contacts where email like 'person1@%'`)
    await app.close()
    expect(await run()).toMatchObject({ rows: { write_rejected: 0 }, calls: 0 })
    expect(await query(`select reason from fillrate.rows where state = 'unchanged'`)).toEqual([
      { reason: 'the row is no longer in the source' },
    ])
  })
})
