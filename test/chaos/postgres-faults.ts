import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { onServer } from '../support/server.ts'
import { compare, type Damage } from './damage.ts'
import { CONCURRENCY, onTrial, type Ground, type TrialOptions } from './ground.ts'
import { startPgBouncer } from './pgbouncer.ts'
import { startProxy } from './proxy.ts'
import type { OwnServer } from './server.ts'

export interface Survived extends Damage {
  /** How often the fault was made. */
  readonly times: number
  readonly code: number | null
  readonly stderr: string
}

/** Slow enough that a fault has something to hit. */
const SLOW = { latencyAfterMs: [150, 300], jobDelayMs: [200, 900] } as const
const FAULT_MS = 1_500

async function survive(
  ground: Ground,
  options: TrialOptions & { readonly after?: (pool: pg.Pool) => Promise<number> },
  times: () => number,
): Promise<Survived> {
  const trial = await onTrial(ground, { sandbox: SLOW, ...options })
  try {
    const { code, stderr } = trial.ended
    const made = (await options.after?.(trial.database.pool)) ?? times()
    return {
      times: made,
      code,
      stderr,
      ...(await compare(trial.database.pool, trial.sandbox, ground.expected, CONCURRENCY)),
    }
  } finally {
    await trial.close()
  }
}

const asked = async (
  { sandbox }: { sandbox: { stats(): { calls: { accepted: number } } } },
  least: number,
) => {
  for (let look = 0; sandbox.stats().calls.accepted < least && look < 600; look++) await sleep(25)
}

/** Postgres itself is killed and started again, while calls are on the wire. */
export function crash(ground: Ground, server: OwnServer): Promise<Survived> {
  let times = 0
  return survive(
    ground,
    {
      during: async (trial) => {
        await asked(trial, 4)
        await server.crash()
        times++
      },
    },
    () => times,
  )
}

/** Every connection of the process is ended by the server, ten times a second. */
export function terminate(ground: Ground): Promise<Survived> {
  let times = 0
  return survive(
    ground,
    {
      during: async (trial) => {
        await asked(trial, 2)
        const name = new URL(trial.database.url).pathname.slice(1)
        await onServer(ground.server, async (client) => {
          for (const end = performance.now() + FAULT_MS; performance.now() < end; await sleep(100)) {
            const { rowCount } = await client.query(
              `select pg_terminate_backend(pid) from pg_stat_activity
                where datname = $1 and application_name = 'fillrate' and pid <> pg_backend_pid()`,
              [name],
            )
            times += rowCount ?? 0
          }
        })
      },
    },
    () => times,
  )
}

/** The database takes no writes, as after a failover to a standby, and then does again. */
export function readOnly(ground: Ground): Promise<Survived> {
  let times = 0
  return survive(
    ground,
    {
      during: async (trial) => {
        await asked(trial, 2)
        const name = new URL(trial.database.url).pathname.slice(1)
        await onServer(ground.server, async (client) => {
          for (const value of ['on', 'off']) {
            await client.query(`alter database ${name} set default_transaction_read_only = ${value}`)
            await client.query(
              `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'fillrate'`,
              [name],
            )
            if (value === 'on') await sleep(FAULT_MS)
            times++
          }
        })
      },
    },
    () => times / 2,
  )
}

/** Every seventh write to a source, and to Fillrate's own rows, meets another transaction, or there is no room for it. */
export function collide(ground: Ground, code: '40P01' | '40001' | '53100'): Promise<Survived> {
  return survive(
    ground,
    {
      prepare: async (pool) => {
        // A sequence counts what is rolled back, too.
        await pool.query(`
          create schema chaos; grant usage on schema chaos to public;
          create sequence chaos.made;
          create function chaos.collide() returns trigger language plpgsql as $$
          begin
            if random() < 0.15 then
              perform nextval('chaos.made');
              raise exception 'made on purpose' using errcode = '${code}';
            end if;
            return null;
          end $$;
          create trigger collide before update on crm.contacts for each statement execute function chaos.collide();
          create trigger collide before update on fillrate.lookups for each statement execute function chaos.collide();
          create trigger collide before insert on fillrate.rows for each statement execute function chaos.collide();`)
      },
      after: async (pool) =>
        Number((await pool.query<{ n: string }>('select last_value as n from chaos.made')).rows[0]?.n ?? 0),
    },
    () => 0,
  )
}

/** People lock rows of a source, and now and then the whole table, for a while: nothing waits for them, and nothing is lost. */
export function lockedRows(ground: Ground): Promise<Survived> {
  let times = 0
  return survive(
    ground,
    {
      during: async (trial) => {
        await asked(trial, 2)
        const person = await trial.database.pool.connect()
        try {
          for (const end = performance.now() + 2 * FAULT_MS; performance.now() < end; times++) {
            await person.query('begin')
            await person.query(
              times % 4 === 3
                ? 'lock table crm.contacts in access exclusive mode'
                : 'select from crm.contacts where random() < 0.2 for update',
            )
            await sleep(200)
            await person.query('commit')
          }
        } finally {
          person.release()
        }
      },
    },
    () => times,
  )
}

/** A table on which a statement of more than ten rows takes too long, as it does where a trigger is slow. */
export function slowTable(ground: Ground): Promise<Survived> {
  return survive(
    ground,
    {
      prepare: async (pool) => {
        await pool.query(`
          create schema chaos; grant usage on schema chaos to public;
          create sequence chaos.made;
          create function chaos.be_slow() returns trigger language plpgsql as $$
          begin
            if (select count(*) from written) > 10 then
              perform nextval('chaos.made');
              raise exception 'made on purpose' using errcode = 'query_canceled';
            end if;
            return null;
          end $$;
          create trigger be_slow after update on crm.contacts referencing new table as written
            for each statement execute function chaos.be_slow();`)
      },
      after: async (pool) =>
        Number((await pool.query<{ n: string }>('select last_value as n from chaos.made')).rows[0]?.n ?? 0),
    },
    () => 0,
  )
}

/** Behind PgBouncer in transaction mode: each transaction on another connection than the one before. */
export async function behindPgBouncer(ground: Ground): Promise<Survived> {
  const bouncer = await startPgBouncer(new URL(ground.server))
  return survive(
    ground,
    {
      cleanUp: bouncer.stop,
      through: (url) => {
        url.port = String(bouncer.port)
        return url.href
      },
    },
    () => 1,
  )
}

/**
 * All connections go silent at once: nobody closes them, and nothing comes any more.
 * @param silentAfterMs how long the product waits for one, which by itself is longer than anybody likes to test
 */
export async function silence(ground: Ground, silentAfterMs: number): Promise<Survived> {
  const proxy = await startProxy(Number(new URL(ground.server).port))
  let times = 0
  try {
    return await survive(
      ground,
      {
        inside: { silentAfterMs },
        through: (url) => {
          url.port = String(proxy.port)
          return url.href
        },
        during: async (trial) => {
          await asked(trial, 4)
          proxy.freeze()
          times++
        },
      },
      () => times,
    )
  } finally {
    await proxy.close()
  }
}
