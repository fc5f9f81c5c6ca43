import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createCommandLine, type CommandLine, type Started } from '../../../test/support/cli.ts'
import { createCrm, crmConfig, distinctEmails } from '../../../test/support/crm.ts'

/** What was left after the killing. */
export interface Aftermath {
  readonly rows: number
  readonly distinct: number
  readonly kills: number
  readonly refused: number
  readonly calls: number
  /** Inputs that were paid more than once, and of these what Fillrate itself counts as in doubt. */
  readonly paidTwice: number
  readonly inDoubt: number
  /** At most so many calls were on the wire at a kill. */
  readonly concurrency: number
  readonly waiting: number
  readonly seconds: number
}

const ROWS = 1_000
const LIMIT = 200
/** Longer than it takes to follow a caller that was killed, so that its successor comes into the same window. */
const WINDOW_MS = 10_000
const CONCURRENCY = 8
const PROCESSES = 4
const KILL_EVERY_MS = 5_000
const KILL_FOR_MS = 60_000

/** Four runs at work on one table, and whichever calls is killed every 5 s for a minute; then they may end. */
export async function killCallers(postgresUrl: string): Promise<Aftermath> {
  const db = openDatabase({ url: postgresUrl, max: 1 })
  await migrate(db)
  await db.destroy()
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
  pool.on('error', () => {})
  const sandbox = await startSandbox({
    limit: LIMIT,
    windowMs: WINDOW_MS,
    latencyBeforeMs: [2, 20],
    latencyAfterMs: [15, 60],
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

async function killAndCount(pool: pg.Pool, sandbox: Sandbox, cli: CommandLine): Promise<Aftermath> {
  const distinct = await distinctEmails(pool)
  const began = performance.now()
  const start = (): Started => cli.start('run', '--route', 'sync', '--json')
  let runs = Array.from({ length: PROCESSES }, start)
  let kills = 0
  while (performance.now() - began < KILL_FOR_MS) {
    await sleep(KILL_EVERY_MS)
    const pid = await callerOf(pool)
    const caller = runs.find(({ child }) => child.pid === pid)
    if (caller === undefined) continue
    caller.child.kill('SIGKILL')
    await caller.ended
    kills++
    runs = [...runs.filter((run) => run !== caller), start()]
    console.error(`killed ${pid}, ${sandbox.stats().calls.accepted} calls so far`)
  }
  await Promise.all(runs.map(({ ended }) => ended))
  // What the last run that was killed had in its hands is free after its lease.
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
    refused: calls.refused,
    calls: calls.accepted,
    paidTwice: inputs.paid_more_than_once,
    inDoubt: rows[0]?.doubt ?? Number.NaN,
    concurrency: CONCURRENCY,
    waiting: rows[0]?.waiting ?? Number.NaN,
    seconds: (performance.now() - began) / 1_000,
  }
}

/** The process that calls now, by what its lease says; null while nobody does. */
async function callerOf(pool: pg.Pool): Promise<number | null> {
  const { rows } = await pool.query<{ owner: string }>(
    'select owner from fillrate.leases where leased_until > now()',
  )
  const pid = rows[0]?.owner.split(':')[1]
  return pid === undefined ? null : Number(pid)
}

/** The result in words, as Markdown. */
export function aftermathText(after: Aftermath): string {
  const line = (text: string, isMet: boolean): string => `- ${text}${isMet ? '' : ' **missed**'}`
  return [
    `${PROCESSES} runs of ${after.rows} rows (${after.distinct} distinct lookups) at ${LIMIT} calls in ${WINDOW_MS / 1_000} s; the process that calls killed ${after.kills} times in a minute; ended after ${Math.round(after.seconds)} s:`,
    '',
    line(`429s: ${after.refused} of ${after.calls} calls`, after.refused === 0),
    line(
      `lookups paid twice: ${after.paidTwice}, of at most ${after.kills * after.concurrency} that were on the wire at a kill (counted by Fillrate as in doubt: ${after.inDoubt})`,
      after.paidTwice <= after.kills * after.concurrency && after.paidTwice <= after.inDoubt,
    ),
    line(`rows left waiting: ${after.waiting}`, after.waiting === 0),
  ].join('\n')
}
