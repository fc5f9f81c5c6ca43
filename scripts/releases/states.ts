import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Sandbox } from '../../src/sandbox/server.ts'
import type { CommandLine, Ended, Started } from '../../test/support/cli.ts'
import { createReleasedCrm, insertContacts } from './crm.ts'

/** A database, the service, and the released program. */
interface Setting {
  readonly pool: pg.Pool
  readonly sandbox: Sandbox
  readonly cli: CommandLine
  /** To be called when the state is reached, and before anything that it holds is let go. */
  readonly dump: () => Promise<void>
}

/** The states in which a version leaves its database, by the names of their dumps. */
export const RELEASED_STATES: Readonly<Record<string, (setting: Setting) => Promise<void>>> = {
  idle: leaveIdle,
  running: leaveRunning,
  'live-sync': leaveLiveSync,
}

/**
 * Two runs over two sources, edits of a user between them, the second one undone and written again. `kept` has the tables as
 * they were before each: what an undo must restore. The edits are no part of what is restored.
 */
async function leaveIdle({ pool, cli, dump }: Setting): Promise<void> {
  await createReleasedCrm(pool, 150, 30)
  await pool.query(`
    create schema kept;
    create table kept.contacts_0 as table crm.contacts;
    create table kept.accounts_0 as table crm.accounts`)
  await run(cli, 'run')
  for (const table of ['crm.contacts', 'kept.contacts_0'])
    await pool.query(`
      update ${table} set title = 'Chief of ' || id where id % 11 = 0;
      update ${table} set phone = null where id % 13 = 0`)
  await insertContacts(pool, 151, 170)
  await pool.query(`
    insert into kept.contacts_0 select * from crm.contacts where id > 150;
    create table kept.contacts_1 as table crm.contacts;
    create table kept.accounts_1 as table crm.accounts`)
  await run(cli, 'run')
  await run(cli, 'undo', '2', '--yes')
  await run(cli, 'undo', '3', '--yes')
  await dump()
}

const HOUR_MS = 3_600_000
/** Before the calls that are held give up. */
const PATIENCE_MS = 20_000

/**
 * In the middle of a second run: one job settled, one submitted, one whose acceptance is on the wire, calls in flight,
 * lookups that wait for a call, and records that could not be written because a user keeps the rows locked.
 */
async function leaveRunning({ pool, sandbox, cli, dump }: Setting): Promise<void> {
  await createReleasedCrm(pool, 400, 24)
  await run(cli, 'run', 'contacts', '--limit', '40')
  let isHolding = false
  const jobs: string[] = []
  sandbox.configure({
    // Slow enough for the jobs to be there before all is answered.
    latencyBeforeMs: 300,
    slowMs: HOUR_MS,
    lateMs: HOUR_MS,
    jobDelayMs: 0,
    // Of the second job the results do not come, of the third not even the acceptance.
    plan: (fault, { endpoint, inputs: { length, 0: input = '' } }) => {
      const isJob = endpoint === 'POST /v1/person/bulk' && length > 1
      if (isJob && !jobs.includes(input)) jobs.push(input)
      if (fault === 'late') return isJob && input === jobs[1]
      if (fault === 'slow') return isJob ? input === jobs[2] : isHolding
      return undefined
    },
  })
  const locker = await pool.connect()
  await locker.query('begin; select from crm.contacts where id between 60 and 64 for update')
  const started = cli.start('run', '--json')
  try {
    await until(
      pool,
      `(select array_agg(state order by state) from fillrate.jobs where run_id = 2) @> '{completed,submitted,submitting}'`,
      started,
    )
    isHolding = true
    await until(
      pool,
      `exists (select from fillrate.lookups where state = 'pending')
       and exists (select from fillrate.lookups where state = 'leased')
       and exists (select from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
                    where r.state = 'waiting' and l.state = 'found')`,
      started,
    )
    await untilStill(pool)
    await dump()
  } finally {
    await kill(started)
    await locker.query('rollback')
    locker.release()
  }
}

/** Live sync that was killed, and what changed in the tables after that. */
async function leaveLiveSync({ pool, cli, dump }: Setting): Promise<void> {
  await createReleasedCrm(pool, 30, 12)
  await run(cli, 'run', 'accounts')
  await run(cli, 'follow', 'install', 'contacts')
  const daemon = cli.start('start')
  try {
    await insertContacts(pool, 31, 40)
    await insertContacts(pool, 41, 160)
    await until(
      pool,
      `not exists (select from fillrate.changed_rows)
       and (select count(*) from fillrate.rows where source = 'contacts' and state <> 'waiting') = 130`,
      daemon,
    )
  } finally {
    await kill(daemon)
  }
  await insertContacts(pool, 161, 170)
  await insertContacts(pool, 171, 300)
  await pool.query(`
    update crm.contacts set email = 'moved' || id || '@example.com' where id between 50 and 54;
    delete from crm.contacts where id between 60 and 61;
    update crm.accounts set website = 'https://company' || id + 100 || '.example', updated_at = now() where id <= 3`)
  await dump()
}

async function run(cli: CommandLine, ...words: string[]): Promise<void> {
  const { code, stdout, stderr } = await cli.run(...words)
  if (code !== 0) throw new Error(`fillrate ${words.join(' ')} exited with ${code}: ${stderr}${stdout}`)
}

async function kill({ child, ended }: Started): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

/** @throws with what the program printed, if it ends before the condition holds or if that takes too long */
async function until(pool: pg.Pool, condition: string, started: Started): Promise<void> {
  let ended: Ended | null = null
  void started.ended.then((end) => (ended = end))
  for (const last = performance.now() + PATIENCE_MS; ; await sleep(50)) {
    const { rows } = await pool.query<{ holds: boolean }>(`select ${condition} as holds`)
    if (rows[0]?.holds === true) return
    if (ended !== null || performance.now() > last)
      throw new Error(`not reached: ${condition}; the program ended with ${JSON.stringify(ended)}`)
  }
}

/** Until no lookup and no row has changed for two seconds. */
async function untilStill(pool: pg.Pool): Promise<void> {
  const read = async (): Promise<string> => {
    const { rows } = await pool.query(`
      select (select json_agg(l order by l.id) from fillrate.lookups l)::text as lookups,
             (select json_agg(json_build_array(r.key, r.state, r.cells_written) order by r.source, r.key) from fillrate.rows r)::text as rows`)
    return JSON.stringify(rows)
  }
  for (let before = ''; ;) {
    const now = await read()
    if (now === before) return
    before = now
    await sleep(2_000)
  }
}
