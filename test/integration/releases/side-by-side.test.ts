import { describe, expect, test } from 'vitest'
import { insertContacts } from '../../../scripts/releases/crm.ts'
import type { CommandLine, Started } from '../../support/cli.ts'
import { freePort } from '../../support/free-port.ts'
import { RELEASES } from '../../support/released.ts'
import { enrichAnew, expectNotPaidTwice, readCells, restore, run, start } from './steps.ts'

// The program of a release beside today's, on one database. It is the real program, with the packages of this checkout.

async function stop({ child, ended }: Started): Promise<void> {
  child.kill('SIGTERM')
  const { code, stderr } = await ended
  expect({ code, stderr }).toMatchObject({ code: 0 })
}

describe.each(RELEASES)('%s beside today', (version) => {
  test('a daemon works on while the schema is upgraded, is replaced, and is replaced back', async () => {
    const release = await restore(version, 'live-sync')
    const { database, old, cli } = release
    let last = 300
    const daemon = async (program: CommandLine): Promise<Started> => start(program, await freePort(), 'start')
    /** Inserts ten contacts, and waits until live sync has finished all that there are. */
    const expectLiveSync = async (): Promise<void> => {
      await insertContacts(database.pool, last + 1, last + 10)
      last += 10
      await expect
        .poll(() =>
          database.scalar<boolean>(`
            not exists (select from fillrate.changed_rows)
            and not exists (select from fillrate.rows where source = 'contacts' and state = 'waiting')
            and (select count(*) from fillrate.rows where source = 'contacts' and key::int > 300) = ${last - 300}`),
        )
        .toBe(true)
    }

    const first = await daemon(old)
    await expectLiveSync()
    expect(await run(cli, 'migrate')).toContain('Upgraded')
    await expectLiveSync()
    // Its triggers are those of the old version still.
    const second = await daemon(cli)
    await expectLiveSync()
    await stop(first)
    await expectLiveSync()
    expect(await run(old, 'migrate')).toContain('up to date')
    const third = await daemon(old)
    await stop(second)
    await expectLiveSync()
    await stop(third)
    await run(old, 'run')
    await expectNotPaidTwice(release)
    expect(await readCells(database)).toEqual(await enrichAnew(release))
  })

  test('a run of each at the same time finish what a dead one left, without paying twice', async () => {
    const release = await restore(version, 'running')
    const { database, old, cli } = release
    await run(cli, 'migrate')
    const [one, two] = [await freePort(), await freePort()]
    const runs = [start(old, one, 'run', '--json'), start(cli, two, 'run', '--json')]
    await expect.poll(() => release.deliverJobs(one).catch(() => 'not yet')).toBeUndefined()
    const ended = await Promise.all(runs.map((each) => each.ended))
    expect(ended).toMatchObject([{ code: 0 }, { code: 0 }])
    await expectNotPaidTwice(release)
    expect(await database.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
    expect(await database.count('fillrate.runs where version is not null')).toBe(1)
    expect(await readCells(database)).toEqual(await enrichAnew(release))
  })

  test('each undoes what the other has written, to the cell', async () => {
    const { database, old, cli } = await restore(version, 'idle')
    await run(cli, 'migrate')
    const contacts = (): Promise<string> => database.checksum('crm.contacts')
    const after = await contacts()
    await run(cli, 'undo', '4', '--yes')
    expect(await contacts()).toBe(await database.checksum('kept.contacts_1'))
    await run(old, 'undo', '5', '--yes')
    expect(await contacts()).toBe(after)
    await run(cli, 'undo', '6', '--yes')
    await run(old, 'undo', '1', '--yes')
    expect(await contacts()).toBe(await database.checksum('kept.contacts_0'))
    expect(await database.checksum('crm.accounts')).toBe(await database.checksum('kept.accounts_0'))
  })
})
