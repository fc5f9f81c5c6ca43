import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { Cable } from '../support/cable.ts'
import { onServer } from '../support/server.ts'
import type { CrashableServer } from './crashable-server.ts'
import { databaseName, runTrial, type ChaosFixture, type Trial, type TrialOptions } from './fixture.ts'
import { checkInvariants, type InvariantReport } from './invariants.ts'
import { startPgBouncer } from './pgbouncer.ts'

export interface FaultResult extends InvariantReport {
  /** How often the fault was injected. */
  readonly faults: number
  readonly code: number | null
  readonly stderr: string
}

/** Slow enough for a fault to meet calls on the wire. */
const SLOW = { latencyAfterMs: [150, 300], jobDelayMs: [200, 900] } as const
const FAULT_MS = 1_500

interface RunningTrial extends Pick<Trial, 'database' | 'sandbox'> {
  /** Ends once the process has said that Postgres is away, or has ended itself. */
  readonly isNoticed: () => Promise<void>
}

/** The fault is injected while the process runs. @returns how often it was injected */
type Inject = (trial: RunningTrial) => Promise<number>

/** What a process logs of an outage of Postgres: that it begins, and that it is over. */
export const OUTAGE = /(?:Over after [^:]*: )?Postgres (?:is away|takes no writes)/g

/** Runs one trial and injects a fault after the service has accepted `calls` calls. */
async function runWithFault(
  fixture: ChaosFixture,
  calls: number,
  inject: Inject,
  options: TrialOptions = {},
): Promise<FaultResult> {
  let faults = 0
  const during: TrialOptions['during'] = async ({ child, ...trial }) => {
    let logged = ''
    child?.stderr?.on('data', (text: string) => (logged += text))
    const isOver = (): boolean => child?.exitCode !== null || logged.search(OUTAGE) !== -1
    const isNoticed = async (): Promise<void> => {
      while (!isOver()) await sleep(25)
    }
    for (let look = 0; trial.sandbox.stats().calls.accepted < calls && look < 600; look++) await sleep(25)
    faults = await inject({ ...trial, isNoticed })
  }
  return checkTrial(fixture, { during, ...options }, async () => faults)
}

/**
 * Runs one trial in whose database triggers raise errors on purpose. They count in the sequence `chaos.made`, because a
 * sequence keeps what a transaction rolls back.
 */
const runWithTriggers = (fixture: ChaosFixture, triggers: string): Promise<FaultResult> =>
  checkTrial(
    fixture,
    {
      prepare: async (pool) => {
        await pool.query(`
          create schema chaos; grant usage on schema chaos to public;
          create sequence chaos.made;
          ${triggers}`)
      },
    },
    async (pool) =>
      Number((await pool.query<{ n: string }>('select last_value as n from chaos.made')).rows[0]?.n ?? 0),
  )

async function checkTrial(
  fixture: ChaosFixture,
  options: TrialOptions,
  countFaults: (pool: pg.Pool) => Promise<number>,
): Promise<FaultResult> {
  const trial = await runTrial(fixture, { sandbox: SLOW, ...options })
  try {
    const { code, stderr } = trial.ended
    const faults = await countFaults(trial.database.pool)
    const report = await checkInvariants(trial, fixture)
    return { faults, code, stderr, ...report }
  } finally {
    await trial.close()
  }
}

const END_CONNECTIONS = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = $1 and application_name = 'fillrate' and pid <> pg_backend_pid()`

/** Postgres itself is killed and started again, while calls are on the wire. */
export const crashPostgres = (fixture: ChaosFixture, server: CrashableServer): Promise<FaultResult> =>
  runWithFault(fixture, 4, async ({ isNoticed }) => {
    await server.halt()
    await isNoticed()
    await server.start()
    return 1
  })

/** The server ends every connection of the process, ten times a second. */
export const endConnections = (fixture: ChaosFixture): Promise<FaultResult> =>
  runWithFault(fixture, 2, (trial) =>
    onServer(fixture.server, async (client) => {
      let ended = 0
      for (const end = performance.now() + FAULT_MS; performance.now() < end; await sleep(100)) {
        const { rowCount } = await client.query(END_CONNECTIONS, [databaseName(trial.database)])
        ended += rowCount ?? 0
      }
      return ended
    }),
  )

/** The database is read-only for a while, as after a failover to a standby. */
export const makeReadOnly = (fixture: ChaosFixture, ms = FAULT_MS): Promise<FaultResult> =>
  runWithFault(fixture, 2, ({ isNoticed, ...trial }) =>
    onServer(fixture.server, async (client) => {
      const name = databaseName(trial.database)
      for (const value of ['on', 'off']) {
        await client.query(`alter database ${name} set default_transaction_read_only = ${value}`)
        await client.query(END_CONNECTIONS, [name])
        if (value === 'on') await Promise.all([sleep(ms), isNoticed()])
      }
      return 1
    }),
  )

/**
 * Writes to a source, and to Fillrate's own tables, fail with this SQLSTATE: the first of all, and then every other write
 * of one transaction in five. By transaction, because a batch with a bad cell is tried by a dozen writes, and if each of
 * them might fail, five tries in a row would: a row is then rejected, as one whose trigger always raises an error.
 */
export const failWrites = (fixture: ChaosFixture, code: '40P01' | '40001' | '53100'): Promise<FaultResult> =>
  runWithTriggers(
    fixture,
    `create function chaos.fail() returns trigger language plpgsql as $$
     begin
       if not (select is_called from chaos.made)
          or (hashint8(pg_current_xact_id()::text::bigint) % 5 = 0 and random() < 0.5) then
         perform nextval('chaos.made');
         raise exception 'made on purpose' using errcode = '${code}';
       end if;
       return null;
     end $$;
     create trigger fail before update on crm.contacts for each statement execute function chaos.fail();
     create trigger fail before update on fillrate.lookups for each statement execute function chaos.fail();
     create trigger fail before insert on fillrate.rows for each statement execute function chaos.fail();`,
  )

/** A statement of more than ten rows times out on the source, as it does where a trigger is slow. */
export const slowDownSource = (fixture: ChaosFixture): Promise<FaultResult> =>
  runWithTriggers(
    fixture,
    `create function chaos.be_slow() returns trigger language plpgsql as $$
     begin
       if (select count(*) from written) > 10 then
         perform nextval('chaos.made');
         raise exception 'made on purpose' using errcode = 'query_canceled';
       end if;
       return null;
     end $$;
     create trigger be_slow after update on crm.contacts referencing new table as written
       for each statement execute function chaos.be_slow();`,
  )

/** Users lock rows of a source, and now and then the whole table. Nothing waits for them, and nothing is lost. */
export const lockSource = (fixture: ChaosFixture): Promise<FaultResult> =>
  runWithFault(fixture, 2, async ({ database }) => {
    const user = await database.pool.connect()
    let locks = 0
    try {
      for (const end = performance.now() + 2 * FAULT_MS; performance.now() < end; locks++) {
        await user.query('begin')
        await user.query(
          locks % 4 === 3
            ? 'lock table crm.contacts in access exclusive mode'
            : 'select from crm.contacts where random() < 0.2 for update',
        )
        await sleep(200)
        await user.query('commit')
      }
    } finally {
      user.release()
    }
    return locks
  })

/** Behind PgBouncer in transaction mode: each transaction may use another connection than the one before. */
export async function runBehindPgBouncer(fixture: ChaosFixture): Promise<FaultResult> {
  const bouncer = await startPgBouncer(new URL(fixture.server))
  return checkTrial(
    fixture,
    { cleanUp: bouncer.stop, through: (url) => Object.assign(url, { port: String(bouncer.port) }).href },
    async () => 1,
  )
}

/**
 * All connections freeze at once: none is closed, and nothing comes through.
 * @param silentAfterMs how long the product waits for a silent connection; its default is too long for a test
 */
export async function freezeConnections(fixture: ChaosFixture, silentAfterMs: number): Promise<FaultResult> {
  const cable = await new Cable(fixture.server).plug()
  try {
    return await runWithFault(
      fixture,
      4,
      async () => {
        cable.freeze()
        return 1
      },
      {
        inProcess: { silentAfterMs },
        through: (url) => cable.through(url.href),
      },
    )
  } finally {
    await cable.pull()
  }
}
