import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine } from '../../support/cli.ts'
import { cloneDatabase } from '../../support/clone.ts'
import { RELEASED, RELEASED_ADDRESS, releasedConfig } from '../../support/released.ts'

// What 1.0.0 has left in Postgres, restored from its dump: this version goes on where it was.

/** A database as 1.0.0 left it, and the command line of this version. */
async function restore(state: string) {
  const database = await cloneDatabase(inject('postgresUrl'), 'template0')
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const sandbox = await startSandbox({ notFoundShare: 0.1 })
  const dump = readFileSync(`${RELEASED}/${state}.sql`, 'utf8')
  await client.query(dump.replaceAll(RELEASED_ADDRESS, `127.0.0.1:${sandbox.port}`))
  await client.end()
  const cli = await createCommandLine(database.url, sandbox, releasedConfig)
  onTestFinished(async () => {
    await cli.remove()
    await sandbox.close()
    await database.drop()
  })
  const succeed = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await cli.run(...args)
    expect({ args, code, stderr }).toMatchObject({ code: 0 })
    return stdout
  }
  await succeed('migrate')
  const typed = `(select string_agg(title, ',' order by id) from crm.contacts where id % 7 = 0)`
  return { database, sandbox, cli, succeed, typed }
}

test('a released migration is as it was released', () => {
  const text = readFileSync('migrations/0001_schema.ts')
  expect(createHash('sha256').update(text).digest('hex')).toBe(
    'ef04e40ac71cb1702ce55bc46300a150efe0bee5d0de7c112b95f5654c3e2b5a',
  )
})

const UNANSWERED = `fillrate.lookups where state not in ('found', 'not_found')`

test('an idle database: nothing is asked again, and an old run is explained and undone', async () => {
  const { database, sandbox, succeed } = await restore('idle')
  const filled = `crm.contacts where title is not null`
  expect(await database.count(filled)).toBeGreaterThan(40)
  await succeed('run')
  expect(sandbox.stats().calls.accepted).toBe(0)
  expect(await succeed('explain', 'contacts', '1')).toContain('person1@example.com')
  await succeed('undo', '1', '--yes')
  expect(await database.count(filled)).toBe(8)
})

test('a run that was killed: it is finished, and what was answered is not asked again', async () => {
  const { database, sandbox, succeed, typed } = await restore('mid-run')
  const titles = await database.scalar(typed)
  const unanswered = await database.count(UNANSWERED)
  expect(unanswered).toBeGreaterThan(10)
  // The service that has the job is not this one.
  for (const { id } of await database.query<{ id: string }>('select job_id as id from fillrate.jobs'))
    await succeed('cancel', '--job', `${id}`)
  await succeed('run', '--route', 'sync')
  expect(sandbox.stats().calls.accepted).toBe(unanswered)
  expect(await database.count(UNANSWERED)).toBe(0)
  expect(await database.count(`fillrate.rows where state <> 'waiting'`)).toBe(100)
  expect(await database.scalar(typed)).toBe(titles)
})

test('live sync: what has changed since is enriched, and another person’s values are gone', async () => {
  const { database, sandbox, cli } = await restore('live-sync')
  const [before] = await database.query('select title from crm.contacts where id = 2')
  const { child, ended } = cli.start('start')
  const settled = `(select count(*) from fillrate.rows where state <> 'waiting') = 62 and not exists (select from fillrate.changed_rows)`
  await expect.poll(() => database.scalar(settled)).toBe(true)
  expect(sandbox.stats().calls.accepted).toBe(2)
  const [after] = await database.query('select title from crm.contacts where id = 2')
  expect(after).not.toEqual(before)
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
})
