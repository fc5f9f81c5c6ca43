import pino from 'pino'
import { BUILT_IN_SERVICE } from '../../src/domain/service/built-in.ts'
import type { Deps, RunPolicy } from '../../src/pipeline/deps.ts'
import { createPass } from '../../src/pipeline/pick/pass.ts'
import { pickPage as pick } from '../../src/pipeline/pick/pick.ts'
import { RunBudget } from '../../src/pipeline/pick/budget.ts'
import { openSource } from '../../src/sources/source.ts'
import type { Source } from '../../src/sources/source-model.ts'
import { parseConfig } from '../../src/config/load.ts'
import type { TestDatabase } from './clone.ts'
import { personSource } from './crm.ts'

/** A policy under which nothing expires in a test. */
export const POLICY: RunPolicy = {
  attempts: 5,
  concurrency: 8,
  bulk: { minimum: 50, deadlineMs: 3_600_000, graceMs: 0 },
  timeoutMs: 30_000,
  refreshAfterMs: 3_600_000_000,
  retryNotFoundAfterMs: 3_600_000_000,
  sourceTimeoutMs: 60_000,
  lockedWaitMs: 0,
  price: null,
}

/** Rows of a table `people` whose records are stored, ready for write-back without a service. */
export interface AnsweredPeople {
  readonly deps: Deps
  readonly source: Source
  readonly run: number
}

/** Creates the table and `count` answered rows. Row 7 is `p7@example.com`, with the title `Title 7`. */
export async function answeredPeople(
  database: TestDatabase,
  count: number,
  policy: Partial<RunPolicy> = {},
): Promise<AnsweredPeople> {
  const { db, pool } = database
  await pool.query(`
    drop table if exists people cascade;
    truncate fillrate.rows, fillrate.lookups, fillrate.answered_lookups, fillrate.changes, fillrate.runs restart identity cascade;
    create table people (id int primary key, email text, title text);
    insert into people select n, 'p' || n || '@example.com' from generate_series(1, ${count}) n;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    values ('manual', '{people}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour');
    insert into fillrate.lookups (kind, key, input, state, record, confidence, requested_at, resolved_at, refresh_at)
    select 'email', 'p' || n || '@example.com', jsonb_build_object('email', 'p' || n || '@example.com'), 'found',
           jsonb_build_object('title', 'Title ' || n, 'confidence', 0.9), 0.9, now(), now(), now() + interval '90 days'
      from generate_series(1, ${count}) n`)
  const config = parseConfig(
    {
      sources: { people: personSource('people', { title: 'title' }) },
    },
    null,
  )
  const mapping = Object.values(config.sources)[0]
  if (mapping === undefined) throw new Error('the configuration has no source')
  const source = await openSource(db, mapping)
  const deps: Deps = {
    db,
    sources: new Map([[source.name, source]]),
    log: pino({ level: 'silent' }),
    now: Date.now,
    random: Math.random,
    policy: { ...POLICY, ...policy },
    service: 0,
    adapter: config.services[0]?.adapter ?? BUILT_IN_SERVICE,
  }
  const options = { limit: null, where: null }
  const pass = createPass(source)
  while (pass.phase !== 'done')
    await pick(
      deps,
      {
        id: 1,
        budget: new RunBudget(null, BUILT_IN_SERVICE.credits),
        service: 0,
      },
      pass,
      options,
    )
  return { deps, source, run: 1 }
}

/** Runs `act` while a user's transaction is open. */
export async function whileOpen<T>(database: TestDatabase, sql: string, act: () => Promise<T>): Promise<T> {
  const user = await database.pool.connect()
  try {
    await user.query(`begin; ${sql}`)
    return await act()
  } finally {
    await user.query('rollback').catch(() => {})
    user.release()
  }
}
