import { describe, expect, test } from 'vitest'
import { insertContacts } from '../../../scripts/releases/crm.ts'
import { readVersion } from '../../../src/util/version.ts'
import { freePort } from '../../support/free-port.ts'
import { RELEASES, type RestoredRelease } from '../../support/released.ts'
import { enrichAnew, expectNotPaidTwice, readCells, restore, run, start } from './steps.ts'

// What each released version left behind is upgraded with today's program, which goes on with it.

async function upgrade(version: string, state: string): Promise<RestoredRelease> {
  const release = await restore(version, state)
  await run(release.cli, 'migrate')
  expect(await run(release.cli, 'migrate')).toContain('up to date')
  return release
}

describe.each(RELEASES)('a database that %s left', (version) => {
  test('after runs: they are undone to the cell, and written again without a call', async () => {
    const release = await upgrade(version, 'idle')
    const { database, sandbox } = release
    // A value that a user has removed comes back when the row is written again.
    const cells = (): Promise<object[]> => readCells(database, 'id % 13 <> 0')
    const [before, contacts] = [await cells(), () => database.checksum('crm.contacts')]
    expect(await database.query('select id, state from fillrate.runs order by id')).toMatchObject(
      [1, 2, 3, 4].map((id) => ({ id: String(id), state: 'completed' })),
    )
    const versions = async (): Promise<(string | null)[]> =>
      (
        JSON.parse(await run(release.cli, 'runs', '--json')) as { runs: { version: string | null }[] }
      ).runs.map((one) => one.version)
    expect(await versions()).toEqual([null, null, null, null])
    // It undid the undo of run 2.
    await run(release.cli, 'undo', '4', '--yes')
    expect(await contacts()).toBe(await database.checksum('kept.contacts_1'))
    await run(release.cli, 'undo', '1', '--yes')
    expect(await contacts()).toBe(await database.checksum('kept.contacts_0'))
    expect(await database.checksum('crm.accounts')).toBe(await database.checksum('kept.accounts_0'))

    expect((await versions()).slice(0, 3)).toEqual([readVersion(), readVersion(), null])
    await run(release.cli, 'retry', '--state', 'undone')
    await run(release.cli, 'run')
    expect(await cells()).toEqual(before)
    expect(sandbox.stats().calls.accepted).toBe(0)
  })

  test('in the middle of a run: the next one finishes it, with what was paid for', async () => {
    const release = await upgrade(version, 'running')
    const { database, sandbox } = release
    const cut = (await release.countAsked()).filter(({ wasCut }) => wasCut)
    expect(cut.length).toBeGreaterThan(0)
    // Some of them were leased ahead, without a call.
    const leased = await database.count(`fillrate.lookups where state = 'leased'`)
    const port = await freePort()
    const next = start(release.cli, port, 'run', '--json')
    await expect.poll(() => release.deliverJobs(port).catch(() => 'not yet')).toBeUndefined()
    const { code, stdout, stderr } = await next.ended
    expect({ code, stderr }).toMatchObject({ code: 0 })
    expect(JSON.parse(stdout)).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })

    // No job is submitted anew, and no lookup of one is asked singly.
    expect(sandbox.stats().jobs.accepted).toBe(0)
    await expectNotPaidTwice(release)
    const inDoubt = await database.scalar<number>('select sum(in_doubt)::int from fillrate.spend')
    expect(inDoubt).toBeGreaterThanOrEqual(cut.length)
    expect(inDoubt).toBeLessThanOrEqual(leased)
    expect(await database.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
    expect(await database.count('fillrate.rows')).toBe(
      (await database.count('crm.contacts')) + (await database.count('crm.accounts')),
    )
    expect(await readCells(database)).toEqual(await enrichAnew(release))
  })

  test('with live sync on: what changed meanwhile is enriched, and so is what changes later', async () => {
    const release = await upgrade(version, 'live-sync')
    const { database } = release
    expect(await database.count('fillrate.changed_rows')).toBe(4)
    start(release.cli, await freePort(), 'start')
    const isDone = (): Promise<boolean> =>
      database.scalar<boolean>(`
        not exists (select from fillrate.changed_rows)
        and not exists (select from crm.contacts t where id > 30 and not exists (
          select from fillrate.rows r where r.source = 'contacts' and r.key = t.id::text and r.state <> 'waiting'))`)
    // Its triggers write to the queue of the schema that was upgraded.
    await insertContacts(database.pool, 1_001, 1_005)
    await expect.poll(isDone).toBe(true)
    expect(
      await database.count(`crm.contacts where email like 'moved%' and phone is not null`),
    ).toBeGreaterThan(0)
    await run(release.cli, 'run')
    await expectNotPaidTwice(release)
    expect(await readCells(database)).toEqual(await enrichAnew(release))
  })
})
