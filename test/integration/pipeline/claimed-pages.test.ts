import pino from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { RunBudget } from '../../../src/pipeline/pick/budget.ts'
import { createPass, type PickPass } from '../../../src/pipeline/pick/pass.ts'
import { pickPage } from '../../../src/pipeline/pick/pick.ts'
import { openSource } from '../../../src/sources/source.ts'
import { LOCK_TIMEOUT_MS } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping } from '../sources/mapping.ts'

// What a page of a pass claims, beside rows and lookups that others have, or take at the same moment.

const database = useTestDatabase()
let pass: PickPass
const [RUN, OTHER] = [1, 2]
const options = { limit: null, where: null }

beforeEach(async () => {
  await database.query(`
    drop table if exists people;
    truncate fillrate.rows, fillrate.lookups, fillrate.runs restart identity cascade;
    create table people (id int primary key, email text, title text, phone text);
    insert into people select n, 'p' || n || '@x.example' from generate_series(1, 300) n;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    select 'manual', '{people}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)`)
  pass = createPass(await openSource(database.db, mapping()))
})

const deps = () => {
  const policy = { sourceTimeoutMs: 30_000 } as Parameters<typeof pickPage>[0]['policy']
  return { db: database.db, log: pino({ level: 'silent' }), policy, service: 0, adapter: BUILT_IN_SERVICE }
}

const pick = (run = RUN) =>
  pickPage(
    deps(),
    {
      id: run,
      budget: new RunBudget(null, BUILT_IN_SERVICE.credits),
      service: 0,
    },
    pass,
    options,
  )

/** How many rows a run holds, and how many of them wait for a lookup of their own email. */
const rowsOf = async (run: number): Promise<unknown> =>
  (
    await database.query(
      `select count(*)::int as rows, count(l.id)::int as matched
         from fillrate.rows r join people p on p.id::text = r.key
         left join fillrate.lookups l on l.id = r.lookup_id and l.key = p.email and r.state = 'waiting'
        where r.run_id = $1`,
      [run],
    )
  )[0]

test('rows and lookups of which some are known are claimed at the first attempt', async () => {
  await database.query(`
    insert into fillrate.lookups (kind, key, input, state, run_id)
    select 'email', email, '{}', 'pending', ${OTHER} from people where id <= 20;
    insert into fillrate.rows (source, key, input_hash, state, run_id, settled_at)
    select 'people', id, 0, case when id <= 10 then 'waiting' else 'unchanged' end, ${OTHER}, case when id > 10 then now() end
      from people where id <= 30`)
  expect(await pick()).toMatchObject({ picked: 240, claimed: 230 })
  expect(await rowsOf(RUN)).toEqual({ rows: 240, matched: 240 })
  expect(await rowsOf(OTHER)).toEqual({ rows: 10, matched: 0 })
})

test('a row that another run inserts at the same moment is waited for, and left to it', async () => {
  const other = await database.pool.connect()
  await other.query(`begin; insert into fillrate.rows (source, key, input_hash, state, run_id)
    values ('people', '7', 0, 'waiting', ${OTHER})`)
  const picking = pick()
  await database.untilBlocked()
  await other.query('commit')
  other.release()
  expect(await picking).toMatchObject({ picked: 249 })
  expect(await rowsOf(OTHER)).toEqual({ rows: 1, matched: 0 })
})

test('a claim waits for a lookup that is locked, for longer than it would for a row of the table', async () => {
  const other = await database.pool.connect()
  await other.query(`begin; insert into fillrate.lookups (kind, key, input, state)
    values ('email', 'p7@x.example', '{}', 'pending')`)
  const picking = pick()
  await database.untilBlocked()
  await other.query(`select pg_sleep(${LOCK_TIMEOUT_MS / 1_000} + 0.2)`)
  await other.query('rollback')
  other.release()
  expect(await picking).toMatchObject({ picked: 250 })
})
