import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { beforeEach, describe, expect, test } from 'vitest'
import { PRELOADED } from '../../chaos/fixture.ts'
import { RELEASES, type RestoredRelease } from '../../support/released.ts'
import { restore, run } from './steps.ts'

// `fillrate migrate` of today, as a process, on the schema of a release.

describe.each(RELEASES)('an upgrade from %s', (version) => {
  let release: RestoredRelease
  const applied = (): Promise<string[]> =>
    release.database.scalar<string[]>('select array_agg(name::text order by name) from fillrate.migrations')
  const columns = (): Promise<string> =>
    release.database.scalar<string>(`
      select string_agg(format('%s.%s %s', table_name, column_name, data_type), E'\\n' order by table_name, column_name)
        from information_schema.columns where table_schema = 'fillrate'`)
  beforeEach(async () => {
    release = await restore(version, 'idle')
  })

  test('that is killed before and after each of its statements is whole or has changed nothing', async () => {
    const { cli } = release
    const [names, before] = [await applied(), await columns()]
    let kills = 0
    for (; (await applied()).length === names.length; kills++) {
      expect(await columns()).toBe(before)
      const { code } = await cli.runWith({ ...PRELOADED, CHAOS_KILL_AFTER: String(kills + 1) }, 'migrate')
      expect(code).toBeNull()
    }
    // The commit was the last one.
    expect(kills).toBeGreaterThan(10)
    expect(await columns()).not.toBe(before)
    expect(await run(cli, 'migrate')).toContain('up to date')
    await run(cli, 'undo', '4', '--yes')
  })

  test('is made once by processes that begin at the same time', async () => {
    const { cli } = release
    const printed = await Promise.all([1, 2, 3].map(() => run(cli, 'migrate')))
    expect(printed.filter((text) => text.includes('Upgraded'))).toHaveLength(1)
    expect(printed.filter((text) => text.includes('up to date'))).toHaveLength(2)
  })

  test('and the creation of the schema by that version at the same time come to one schema', async () => {
    const { database, old, cli } = release
    const holder = new pg.Client({ connectionString: database.url })
    await holder.connect()
    const untilWaiting = async (count: number): Promise<void> => {
      const blocked = `pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await expect.poll(() => database.count(blocked)).toBe(count)
    }
    try {
      await database.query('drop schema fillrate cascade; create schema fillrate')
      // The old program waits between two of its tables, and today's for the first of them.
      await holder.query('begin; create table fillrate.lookups ()')
      const older = old.start('migrate')
      await untilWaiting(1)
      const upgrading = cli.start('migrate')
      await untilWaiting(2)
      await holder.query('rollback')
      expect(await older.ended).toMatchObject({ code: 0 })
      const { code, stderr } = await upgrading.ended
      // On a slow machine the older program takes more than the second after which the next attempt is reported.
      expect({ code, stderr: stderr.replaceAll(/^Waiting for a lock, retrying: .+\n/gm, '') }).toEqual({
        code: 0,
        stderr: '',
      })
      expect(await run(cli, 'migrate')).toContain('up to date')
      await run(old, 'status')
    } finally {
      await holder.end()
    }
  })

  test('is refused to a role that does not own the schema, in one line that names who does', async () => {
    const { database, cli } = release
    const [role, before] = [`works_${randomUUID().slice(0, 8)}`, await columns()]
    await database.query(`
      create role ${role} login password 'x';
      grant usage on schema fillrate to ${role};
      grant select, insert, update, delete on all tables in schema fillrate to ${role}`)
    try {
      const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
      const { code, stderr } = await cli.runWith({ DATABASE_URL: url.href }, 'migrate')
      const owner = await database.scalar<string>('current_user')
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: `fillrate: the role ${role} may not upgrade the schema "fillrate", which belongs to ${owner} (must be owner of table runs). Nothing was changed. Run \`fillrate migrate\` as ${owner}.\n`,
      })
      expect(await columns()).toBe(before)
    } finally {
      await database.query(`drop owned by ${role} cascade; drop role ${role}`)
    }
  })

  test('waits for a table in short turns, says for whom, and lets the old version read meanwhile', async () => {
    const { database, cli, old } = release
    const holder = new pg.Client({ connectionString: database.url, application_name: 'pg_dump' })
    await holder.connect()
    try {
      await holder.query('begin; lock table fillrate.runs in access share mode')
      const upgrading = cli.start('migrate')
      const said = new Promise<string>((resolve) => upgrading.child.stderr?.once('data', resolve))
      expect(await said).toMatch(
        /^Waiting for a lock, retrying: process \d+ of Postgres \(pg_dump, role .+, in a transaction for \d+ s: runs\)\.\n$/,
      )
      await run(old, 'runs')
      await holder.query('rollback')
      const { code, stdout } = await upgrading.ended
      expect({ code, stdout }).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Upgraded') as string,
      })
    } finally {
      await holder.end()
    }
  })
})

test('the first migration, killed in the middle, leaves nothing that is in the way of the next', async () => {
  const { database, cli } = await restore(RELEASES[0] ?? '', 'idle')
  await database.query('drop schema fillrate cascade')
  for (const kill of ['60', '150', '240']) {
    const { code } = await cli.runWith({ ...PRELOADED, CHAOS_KILL_AFTER: kill }, 'migrate')
    expect(code).toBeNull()
    expect(await database.scalar<string | null>(`to_regclass('fillrate.runs')::text`)).toBeNull()
  }
  expect(await run(cli, 'migrate')).toContain('Created the schema "fillrate" in ')
  expect(await run(cli, 'status')).toContain('no row was picked yet')
})
