import { type Kysely, sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { insertContacts } from '../../../scripts/releases/crm.ts'
import { readVersion } from '../../../src/util/version.ts'
import { migrate } from '../../../src/store/migrate.ts'
import type { CommandLine } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/clone.ts'
import { freePort } from '../../support/free-port.ts'
import { RELEASES, type RestoredRelease } from '../../support/released.ts'
import { restore, run, start } from './steps.ts'

// A migration that takes away what older versions use: it drops a column that the programs of the releases, and that of
// today, read and write. For it, all of them are older.

const CONTRACT = '9997_from_999_0_without_notes'

const dropNotes = (tx: Kysely<unknown>): Promise<unknown> =>
  sql`alter table fillrate.rows drop column notes`.execute(tx)

/** @param up what the migration does */
async function contract({ database }: RestoredRelease, up = dropNotes): Promise<string[]> {
  const applied = await database.query<{ name: string }>('select name from fillrate.migrations')
  const done = Object.fromEntries(applied.map(({ name }) => [name, { up: async () => {} }]))
  const migration = { up: (tx: Kysely<unknown>) => up(tx).then(() => {}) }
  return migrate(database.db, { migrations: async () => ({ ...done, [CONTRACT]: migration }) })
}

const hasNotes = (database: TestDatabase): Promise<boolean> =>
  database.scalar<boolean>(
    `exists (select from pg_attribute where attrelid = 'fillrate.rows'::regclass and attname = 'notes')`,
  )

const refusal = (version: string): unknown =>
  expect.stringMatching(
    `^fillrate: the schema "fillrate" was upgraded by a newer version \\(${CONTRACT}\\), and works with version 999\\.0 and later; this is ${version.replaceAll('.', '\\.')}\\. .*\\n$`,
  )

/** Every command of an older version ends with one line. */
async function expectRefused(cli: CommandLine, version: string): Promise<void> {
  for (const words of [['migrate'], ['status'], ['run'], ['undo', '1', '--yes'], ['start']]) {
    const { code, stderr } = await cli.runWith({ LOG_LEVEL: 'warn' }, ...words)
    expect({ words, code, stderr }).toEqual({ words, code: 2, stderr: refusal(version) })
  }
}

describe.each(RELEASES)('a migration that ends the support of %s', (version) => {
  test('is refused while a daemon of it works, and takes away nothing', async () => {
    const release = await restore(version, 'idle')
    const { database, old, cli } = release
    await run(cli, 'migrate')
    const daemon = start(old, await freePort(), 'start')
    await expect.poll(() => database.count('fillrate.processes')).toBe(1)
    await expect(contract(release)).rejects.toThrow(
      `takes away what versions before 999.0 use, and version ${version} (start, process ${daemon.child.pid} on `,
    )
    expect(await hasNotes(database)).toBe(true)
    await insertContacts(database.pool, 301, 310)
    await run(old, 'run')
    expect(await database.count(`fillrate.rows where source = 'contacts' and key::int > 300`)).toBe(10)

    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0 })
    expect(await contract(release)).toEqual([CONTRACT])
    expect(await hasNotes(database)).toBe(false)
    await expectRefused(old, version)
  })

  test('is refused while a run of it works, and goes through when that is dead', async () => {
    const release = await restore(version, 'running')
    await run(release.cli, 'migrate')
    await release.database.query(`
      update fillrate.runs set leased_until = now() + interval '1 hour' where state = 'running'`)
    await expect(contract(release)).rejects.toThrow(/use, and an older version \(run \d+\) still run/)
    expect(await hasNotes(release.database)).toBe(true)
    await release.database.query(`update fillrate.runs set leased_until = now() - interval '1 second'`)
    expect(await contract(release)).toEqual([CONTRACT])
    // A process that was only asleep finds that its run is over.
    expect(await release.database.count(`fillrate.runs where state = 'running'`)).toBe(0)
    expect(await release.database.count('fillrate.processes')).toBe(0)
    await expectRefused(release.old, version)
  })
})

describe('an older process that starts while such a migration is at work', () => {
  /** Runs a command that starts when the migration has seen that nothing older lives, and that has to wait for it. */
  async function runMeanwhile(release: RestoredRelease, words: readonly string[]) {
    const { database, cli } = release
    const env = { LOG_LEVEL: 'warn', FILLRATE_PORT: String(await freePort()) }
    const ends: ReturnType<typeof cli.runWith>[] = []
    await contract(release, async (tx) => {
      ends.push(cli.runWith(env, ...words))
      await expect
        .poll(() =>
          database.count(`pg_locks where not granted and relation::regclass::text like 'fillrate.%'`),
        )
        .toBeGreaterThan(0)
      await dropNotes(tx)
    })
    return (await Promise.all(ends))[0]
  }

  test.each([['run'], ['start'], ['serve'], ['undo', '4', '--yes']])('is refused: %s', async (...words) => {
    const release = await restore(RELEASES[0] ?? '', 'idle')
    const { database, cli } = release
    await run(cli, 'migrate')
    const contacts = await database.checksum('crm.contacts')
    expect(await runMeanwhile(release, words)).toMatchObject({ code: 2, stderr: refusal(readVersion()) })
    expect(await database.checksum('crm.contacts')).toBe(contacts)
    expect(await database.count(`fillrate.runs where state = 'running'`)).toBe(0)
    expect(await database.count('fillrate.processes')).toBe(0)
  })
})
