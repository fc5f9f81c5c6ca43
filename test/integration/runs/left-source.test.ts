import { beforeEach, describe, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { countFilled } from '../../../src/sources/left-out.ts'
import { TABLE_POLICY } from '../../../src/pipeline/deps.ts'
import { writeBackBatch } from '../../../src/pipeline/write-back.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, stateSum, useHarness } from '../../support/harness.ts'
import { rewindWrites } from '../../support/rewind-writes.ts'

/** A user's way to enrich each contact once: a stamp, and a filter on it. */
const once = {
  ...crmConfig.sources.contacts,
  where: `t.first_name = 'Ada' and (t.enriched_at is null or t.enriched_at < now() - interval '90 days')`,
}
const config = { ...crmConfig, sources: { contacts: once } }

const harness = useHarness({ config, prepare: ({ pool }) => createCrm(pool, 0) })
beforeEach(async () => {
  await harness.query(
    'truncate crm.contacts, fillrate.source_state, fillrate.rows, fillrate.lookups, fillrate.changes cascade',
  )
  await harness.query(`
    insert into crm.contacts (email, first_name)
    select 'person' || n || '@x.example', 'Ada' from generate_series(1, 20) n`)
})

async function run(changes: object = config): Promise<RunReport & { calls: number }> {
  const before = harness.calls()
  const report = await harness.run({ route: 'sync' }, { config: changes })
  expect(stateSum(report)).toBe(report.rows.picked)
  return { ...report, calls: harness.calls() - before }
}

/** Leaves rows as their answers have just come. */
async function answerUnwritten(): Promise<void> {
  await run()
  await rewindWrites(harness)
  await harness.query(
    'update crm.contacts set title = null, phone = null, seniority = null, company = null, enriched_at = null',
  )
}

describe('a row that leaves the source between pick and write', () => {
  test('is no failure, and is written from its record when it is back', async () => {
    await answerUnwritten()
    const app = await harness.open()
    const source = app.sources.get('contacts')
    if (source === undefined) throw new Error('no source')
    await harness.query('update crm.contacts set enriched_at = now()')
    await writeBackBatch({ db: app.db, policy: TABLE_POLICY }, source)
    await app.close()
    expect(await harness.query('select distinct state from fillrate.rows order by state')).toEqual([
      { state: 'not_found' },
      { state: 'unchanged' },
    ])
    expect(
      await harness.query(`
        select distinct reason, input_hash, due_at, cells_skipped from fillrate.rows where state = 'unchanged'`),
    ).toEqual([
      {
        reason: 'it left the source before it was written',
        input_hash: null,
        due_at: null,
        cells_skipped: 0,
      },
    ])
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
    await harness.query('update crm.contacts set enriched_at = null')
    expect(await run()).toMatchObject({ calls: 0 })
    expect(await harness.query(`select distinct state from fillrate.rows order by state`)).toEqual([
      { state: 'enriched' },
      { state: 'not_found' },
    ])
  })

  test('because another source has set the stamp is no failure', async () => {
    const { phone, ...others } = once.outputs
    const sources = { contacts: { ...once, outputs: others }, phones: { ...once, outputs: { phone } } }
    expect(await run({ ...config, sources })).toMatchObject({
      status: 'completed',
      rows: { write_rejected: 0, failed: 0 },
      calls: 20,
    })
  })

  test('and that is deleted is no failure either', async () => {
    await answerUnwritten()
    await harness.query(`delete from crm.contacts where email like 'person1@%'`)
    expect(await run()).toMatchObject({ rows: { write_rejected: 0 }, calls: 0 })
    expect(await harness.query('select source from fillrate.rows where deleted_at is not null')).toEqual([
      { source: 'contacts' },
    ])
  })
})

describe('a row that leaves the source by its own write', () => {
  const fillRate = async (changes: object = config): Promise<unknown> => {
    const app = await harness.open({ config: changes })
    const source = app.sources.get('contacts')
    const counts = source && (await app.db.transaction().execute((tx) => countFilled(tx, source)))
    await app.close()
    return counts
  }
  const clear = () => harness.query('update crm.contacts set phone = null, title = null')
  /** Rows into which a record would be written again. */
  const writable = () =>
    harness.query<{ id: number }>(
      'select id from crm.contacts where phone is not null or title is not null order by id',
    )

  test('is counted in the fill rate, whether a stamp or a filled column made it leave', async () => {
    await run()
    expect(await fillRate()).toMatchObject({ eligible: 20 })
    const blank = { ...config, sources: { contacts: { ...once, where: 't.title is null' } } }
    const [filled] = await harness.query<{ count: number }>('select count(title)::int from crm.contacts')
    expect(filled?.count).toBeGreaterThan(10)
    expect(await fillRate(blank)).toMatchObject({
      eligible: 20,
      columns: [{ column: 'title', filled: filled?.count }, {}, {}, {}],
    })
  })

  test('is reached by remap', async () => {
    await run()
    const { length: changed } = await writable()
    await clear()
    const { examined, report } = await harness.remap('contacts')
    expect(examined).toMatchObject({ row_missing: 0, inputs_changed: 0, changed })
    expect(report).toMatchObject({ rows: { enriched: changed } })
    await clear()
    expect((await harness.remap('contacts')).examined).toMatchObject({ row_missing: 0, changed })
  })

  test('is refreshed when it is due', async () => {
    await run()
    await clear()
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
    const due = await harness.query(
      `update fillrate.rows set due_at = now() where state = 'enriched' returning key`,
    )
    await harness.query(`update fillrate.lookups set refresh_at = now()`)
    const app = await harness.open()
    expect((await app.plan(runRequest())).sources[0]).toMatchObject({ rows: 20, picked: due.length })
    await app.close()
    expect(await run()).toMatchObject({ rows: { picked: due.length }, calls: due.length })
  })

  test('is not in it any more if a user excludes it, or another program sets the stamp', async () => {
    await run()
    const [first, second, ...rest] = await writable()
    await clear()
    await harness.query(`update crm.contacts set first_name = 'Deleted' where id = ${first?.id}`)
    await harness.query(`update crm.contacts set enriched_at = now() where id = ${second?.id}`)
    expect((await harness.remap('contacts')).examined).toMatchObject({ row_missing: 2, changed: rest.length })
    expect(await fillRate()).toMatchObject({ eligible: 18 })
  })

  test('is undone, and the next run requests and writes nothing', async () => {
    const before = await harness.query('select * from crm.contacts order by id')
    const { run: id } = await run()
    await harness.undo(id)
    expect(await harness.query('select * from crm.contacts order by id')).toEqual(before)
    expect(await run()).toMatchObject({ rows: { picked: 0 }, calls: 0 })
  })
})
