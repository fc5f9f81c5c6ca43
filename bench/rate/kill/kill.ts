import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createCommandLine, type CommandLine, type Started } from '../../../test/support/cli.ts'
import { createCrm, crmConfig, distinctEmails } from '../../../test/support/crm.ts'

/** The result of a run in which leaders were killed. */
export interface KillResult {
  readonly rows: number
  readonly distinct: number
  readonly kills: number
  readonly rejected: number
  readonly calls: number
  /** Inputs that were billed more than once, and calls that Fillrate itself counts as unconfirmed. */
  readonly paidTwice: number
  readonly inDoubt: number
  /** At most this many calls were in flight at a kill. */
  readonly concurrency: number
  readonly waiting: number
  readonly seconds: number
}

const ROWS = 1_000
const LIMIT = 200
/** Longer than it takes to replace a killed leader, so that the next one comes into the same window. */
const WINDOW_MS = 10_000
const CONCURRENCY = 8
const PROCESSES = 4
const KILL_EVERY_MS = 5_000
const KILL_FOR_MS = 60_000

/** Four runs on one table, of which the leader is killed every 5 s for a minute; then they may finish. */
export async function killLeaders(postgresUrl: string): Promise<KillResult> {
  const db = openDatabase({ url: postgresUrl, max: 1 })
  await migrate(db)
  await db.destroy()
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
  pool.on('error', () => {})
  const sandbox = await startSandbox({
    limit: LIMIT,
    windowMs: WINDOW_MS,
    latencyAfterMs: [17, 80],
  })
  const cli = await createCommandLine(postgresUrl, sandbox, {
    ...crmConfig,
    service: { concurrency: CONCURRENCY },
  })
  try {
    await createCrm(pool, ROWS)
    return await killAndCount(pool, sandbox, cli)
  } finally {
    await cli.remove()
    await sandbox.close()
    await pool.end()
  }
}

async function killAndCount(pool: pg.Pool, sandbox: Sandbox, cli: CommandLine): Promise<KillResult> {
  const distinct = await distinctEmails(pool)
  const began = performance.now()
  const start = (): Started => cli.start('run', '--route', 'sync', '--json')
  let runs = Array.from({ length: PROCESSES }, start)
  let kills = 0
  while (performance.now() - began < KILL_FOR_MS) {
    await sleep(KILL_EVERY_MS)
    const pid = await leaderPid(pool)
    const leader = runs.find(({ child }) => child.pid === pid)
    if (leader === undefined) continue
    leader.child.kill('SIGKILL')
    await leader.ended
    kills++
    runs = [...runs.filter((run) => run !== leader), start()]
    console.error(`killed ${pid}, ${sandbox.stats().calls.accepted} calls so far`)
  }
  await Promise.all(runs.map(({ ended }) => ended))
  // The leases of the last killed run expire before this one ends.
  await start().ended
  const { calls, inputs } = sandbox.stats({ inputs: true })
  const { rows } = await pool.query<{ waiting: number; doubt: number }>(
    `select (select count(*) from fillrate.rows where state = 'waiting')::int as waiting,
            (select coalesce(sum(unconfirmed_calls), 0) from fillrate.lookups)::int as doubt`,
  )
  return {
    rows: ROWS,
    distinct,
    kills,
    rejected: calls.refused,
    calls: calls.accepted,
    paidTwice: inputs.paid_more_than_once,
    inDoubt: rows[0]?.doubt ?? Number.NaN,
    concurrency: CONCURRENCY,
    waiting: rows[0]?.waiting ?? Number.NaN,
    seconds: (performance.now() - began) / 1_000,
  }
}

/** The leader's process by its lease; null if there is none. */
async function leaderPid(pool: pg.Pool): Promise<number | null> {
  const { rows } = await pool.query<{ owner: string }>(
    'select owner from fillrate.leases where leased_until > now()',
  )
  const pid = rows[0]?.owner.split(':')[1]
  return pid === undefined ? null : Number(pid)
}

/** The result as Markdown. */
export function formatKillResult(after: KillResult): string {
  const line = (text: string, isMet: boolean): string => `- ${text}${isMet ? '' : ' **missed**'}`
  return [
    `${PROCESSES} runs of ${after.rows} rows (${after.distinct} distinct lookups) at ${LIMIT} calls in ${WINDOW_MS / 1_000} s; the leader killed ${after.kills} times in a minute; ended after ${Math.round(after.seconds)} s:`,
    '',
    line(`429s: ${after.rejected} of ${after.calls} calls`, after.rejected === 0),
    line(
      `lookups paid twice: ${after.paidTwice}, of at most ${after.kills * after.concurrency} that were in flight at a kill (counted by Fillrate as in doubt: ${after.inDoubt})`,
      after.paidTwice <= after.kills * after.concurrency && after.paidTwice <= after.inDoubt,
    ),
    line(`rows left waiting: ${after.waiting}`, after.waiting === 0),
  ].join('\n')
}
