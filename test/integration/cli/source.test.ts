import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { enforceRetention } from '../../../src/pipeline/retention.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine, type Ended } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { useFreshDatabase } from '../../support/database.ts'

const PEOPLE = 60
const database = useFreshDatabase()
let sandbox: Sandbox
let cli: CommandLine

const { contacts, accounts } = withAccounts.sources
const configOf = (sources: object) => ({ ...withAccounts, sources })
const before = configOf({ old_people: contacts, accounts })
const after = configOf({ people: contacts, accounts })

beforeAll(async () => {
  sandbox = await startSandbox({ jobDelayMs: [10, 50] })
})
afterAll(() => sandbox.close())
beforeEach(async () => {
  await createCrm(database.pool, PEOPLE, 10)
  await database.query(`update crm.contacts set email = 'nobody' where id = 1`)
  cli = await createCommandLine(database.url, sandbox, before)
  return () => cli.remove()
})

/** A run whose budget ends it early is none that failed. */
const enrich = async (...words: string[]): Promise<Ended> => {
  const ended = await cli.run('run', ...words, '--json')
  expect([0, 4]).toContain(ended.code)
  return ended
}
const done = async (...words: string[]): Promise<Ended> => {
  const ended = await cli.run(...words)
  expect(ended, `${words.join(' ')}: ${ended.stderr}`).toMatchObject({ code: 0 })
  return ended
}
const jsonOf = async <T>(...words: string[]): Promise<T> =>
  JSON.parse((await done(...words, '--json')).stdout) as T

/** Tables of the schema with a row that names the source anywhere. */
async function listMentions(name: string): Promise<string[]> {
  const tables = await database.query<{ table: string }>(
    `select tablename as table from pg_tables where schemaname = 'fillrate' order by 1`,
  )
  const found: string[] = []
  for (const { table } of tables) {
    // Counts that add up to nothing are folded away by the recovery of a run.
    const rows =
      table === 'row_counts'
        ? '(select source, sum(rows) from fillrate.row_counts group by 1 having sum(rows) <> 0)'
        : `fillrate.${table}`
    const [one] = await database.query<{ named: boolean }>(
      `select exists (select from ${rows} t where to_jsonb(t)::text ~ '\\m${name}\\M') as named`,
    )
    if (one?.named === true) found.push(table)
  }
  return found
}

/** What a run, a daemon and a user leave of a source. */
async function leaveTraces(): Promise<void> {
  await enrich('old_people', 'accounts', '--budget', '40')
  await done('follow', 'install', 'old_people')
  await database.query(`update crm.contacts set email = 'new@example.com' where id = 2`)
  await done('pause', 'old_people', '--because', 'import')
  await database.query(`
    insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at)
    values ('0 2 * * * | old_people,accounts', now(), '{old_people,accounts}', 'done', now());
    insert into fillrate.conditions (kind, source, details, began_at, seen_at)
    values ('run_failed', 'old_people, accounts', '{"sources": ["old_people", "accounts"]}', now(), now());
    insert into fillrate.rows (source, key, state, settled_at, deleted_at, is_kept, may_be_hidden)
    values ('old_people', '9999', 'enriched', now(), now(), false, false)`)
}

describe('rename', () => {
  test('gives everything that is kept the new name: nothing is looked up again, and old runs are undone', async () => {
    await leaveTraces()
    const spent = sandbox.stats().calls.accepted
    const rows = (await jsonOf<{ rows: Record<string, object> }>('status')).rows['old_people']
    const { days, sources, runs } = (
      await jsonOf<{ spend: Record<'days' | 'sources' | 'runs', object> }>('status')
    ).spend
    const spend = JSON.parse(
      JSON.stringify({ days, sources, runs }).replaceAll('old_people', 'people'),
    ) as object
    await cli.configure(after)
    expect((await done('source', 'rename', 'old_people', 'people')).stdout).toMatch(
      /^old_people is now people, with \d+ rows\.$/m,
    )
    // What was said stays as it was said, and what an answered lookup was requested for is read no more.
    expect(await listMentions('old_people')).toEqual(['audit_events', 'lookups'])
    expect(
      await database.query(
        `select from fillrate.lookups where source = 'old_people' and resolved_at is null`,
      ),
    ).toEqual([])
    const status = await jsonOf<{ rows: Record<string, object>; retired: object[]; spend: object }>('status')
    expect(status).toMatchObject({ rows: { people: rows }, retired: [], spend })
    expect((await done('check')).stdout).toMatch(/✓ source people/)
    expect(await database.query(`select schedule, sources from fillrate.scheduled_runs`)).toEqual([
      { schedule: '0 2 * * * | people,accounts', sources: ['people', 'accounts'] },
    ])
    expect(
      await database.query(`select tgname from pg_trigger where tgname like 'fillrate_follow_old%'`),
    ).toEqual([])
    expect(
      (await database.query(`select tgname from pg_trigger where tgname like 'fillrate_follow_people%'`))
        .length,
    ).toBeGreaterThan(0)

    await done('resume', 'people')
    await done('explain', 'people', '3')
    expect(sandbox.stats().calls.accepted).toBe(spent)
    const undone = await jsonOf<{ changes: { restored: number; not_configured: number } }>(
      'undo',
      '1',
      '--yes',
    )
    expect(undone.changes).toMatchObject({ not_configured: 0 })
    expect(undone.changes.restored).toBeGreaterThan(30)
  })

  test('is refused where names or runs are in the way, and says what to do', async () => {
    await enrich('--budget', '20')
    const refuse = async (words: string[], said: RegExp): Promise<void> => {
      const ended = await cli.run('source', ...words)
      expect(ended.stderr).toMatch(said)
      expect(ended.code).toBe(2)
    }
    await refuse(
      ['rename', 'old_people', 'people'],
      /configuration still has[\s\S]*Rename it in the configuration first/,
    )
    await cli.configure(after)
    await refuse(['rename', 'old_people', 'poeple'], /no such source[\s\S]*Did you mean 'people'\?/)
    await refuse(['rename', 'old_peple', 'people'], /nothing is kept of it[\s\S]*Did you mean 'old_people'\?/)
    await refuse(['rename', 'old_people'], /NEW/)
    await database.query(
      `update fillrate.runs set state = 'running', finished_at = null, leased_until = now() + interval '1 hour' where id = 1`,
    )
    await refuse(['rename', 'old_people', 'people'], /run 1 is working on it[\s\S]*fillrate cancel 1/)
    await database.query(`update fillrate.runs set state = 'failed', finished_at = now() where id = 1`)
    await database.query(`
      insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
      values ('x', 'start', 'box', 7, '1', '24', '{"sources": {"old_people": {}}}', now())`)
    await refuse(['rename', 'old_people', 'people'], /fillrate start on box \(process 7\) still has it/)
    await database.query(`delete from fillrate.processes`)
    await enrich('people', '--budget', '1')
    await refuse(['rename', 'old_people', 'people'], /rows? of its own[\s\S]*its waiting rows/)
  })
})

test('a source that left the configuration: its triggers are removed by its name, its waiting rows end after seven days', async () => {
  await leaveTraces()
  // A row that waits for a lookup that no run has requested.
  await database.query(`
    with lookup as (
      insert into fillrate.lookups (kind, key, input, source, state) values ('email', 'x@y.example', '{}', 'old_people', 'pending') returning id
    ) insert into fillrate.rows (source, key, state, lookup_id)
      select source, '8888', 'waiting', id from lookup, unnest(array['old_people', 'accounts']) as s (source)`)
  await cli.configure(configOf({ accounts }))
  expect((await done('status')).stdout).toMatch(
    /Retired +old_people[\s\S]*fillrate source rename[\s\S]*fillrate follow remove/,
  )
  expect((await done('follow', 'remove', 'old_people')).stdout).toContain(
    'Triggers removed from crm.contacts',
  )
  expect(await database.query(`select from pg_trigger where tgname like 'fillrate_follow_%'`)).toEqual([])
  expect(await database.count(`fillrate.changed_rows where source = 'old_people'`)).toBe(0)
  expect(await cli.run('follow', 'remove', 'old_people')).toMatchObject({ code: 2 })

  const sweep = () =>
    enforceRetention(
      { db: database.db },
      { recordsMs: null, deliveriesMs: 30 * 86_400_000, changesMs: null },
      { after: 0 },
    )
  const waiting = (source: string) =>
    database.count(`fillrate.rows where source = '${source}' and state = 'waiting'`)
  const age = (days: number) =>
    database.query(
      `update fillrate.source_state set configured_at = configured_at - make_interval(days => $1)`,
      [days],
    )
  await age(6)
  expect((await sweep()).deleted.leftRows).toBe(0)
  await age(2)
  // A process that has it, although it is paused, has it in its configuration.
  await done('pause', 'accounts')
  await enrich('--budget', '1')
  expect((await sweep()).deleted.leftRows).toBe(1)
  expect([await waiting('old_people'), await waiting('accounts')]).toEqual([0, 1])
  expect(
    await database.query(
      `select state, failure, reason from fillrate.rows where source = 'old_people' and key = '8888'`,
    ),
  ).toEqual([{ state: 'failed', failure: 'failed', reason: 'its source is no longer in the configuration' }])
})

test('follow takes several sources, and a name that is wrong changes none', async () => {
  const count = async (): Promise<number> =>
    (await database.query(`select distinct tgfoid from pg_trigger where tgname like 'fillrate_follow_%'`))
      .length
  const wrong = await cli.run('follow', 'install', 'old_people', 'acounts')
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("Did you mean 'accounts'?") })
  expect(await count()).toBe(0)
  const { stdout } = await done('follow', 'install', 'old_people', 'accounts')
  expect(stdout).toMatch(/Changes of old_people are[\s\S]*Changes of accounts are/)
  expect(await count()).toBe(2)
  expect(await jsonOf('follow', 'remove', 'old_people', 'accounts')).toMatchObject({
    sources: [
      { source: 'old_people', changed: true },
      { source: 'accounts', changed: true },
    ],
  })
  expect(await count()).toBe(0)
})
