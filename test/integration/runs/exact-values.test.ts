import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { openApp, type App } from '../../../src/app.ts'
import { parseConfig } from '../../../src/config/load.ts'
import type { UndoReport } from '../../../src/actions/undo/undo.ts'
import { hasPgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import { useTestDatabase } from '../../support/database.ts'
import { runRequest, testEnvironment } from '../../support/environment.ts'
import { startRecordService, type RecordService } from '../../support/record-service.ts'

let service: RecordService
const database = useTestDatabase()
beforeAll(async () => {
  service = await startRecordService()
})
afterAll(() => service.close())
beforeEach(async () => {
  service.records.clear()
  await database.query(
    'drop table if exists people; truncate fillrate.runs, fillrate.lookups, fillrate.rows, fillrate.changes cascade',
  )
})

/** Opens Fillrate on a table `people`, as a new process does. */
async function withApp<T>(outputs: object, act: (app: App) => Promise<T>, url = database.url): Promise<T> {
  const app = await openApp({
    config: parseConfig(
      {
        sources: { s: { kind: 'person', table: 'people', inputs: { email: 't.email' }, outputs } },
        budget: 'unlimited',
      },
      null,
    ),
    environment: testEnvironment(url, service.url),
    log: pino({ level: 'silent' }),
  })
  try {
    return await act(app)
  } finally {
    await app.close()
  }
}

const run = (outputs: object): Promise<RunReport> => withApp(outputs, (app) => app.run(runRequest()))

const undo = (outputs: object, id: number): Promise<UndoReport> =>
  withApp(outputs, (app) => app.undo({ run: id, dryRun: false, signal: new AbortController().signal }))

/** A field of any name, for which the service returns any JSON. */
const field = (name: string, policy: string): object => ({ field: name, unlisted: true, policy })

const answer = (email: string, fields: string): void => {
  service.records.set(email, `{"confidence": 0.90, ${fields}}`)
}

const rows = async (row = 'p::text'): Promise<string[]> =>
  (await database.query<{ row: string }>(`select ${row} as row from people p order by 1`)).map(
    ({ row }) => row,
  )

/** Makes every row and lookup due, so that the next run requests them again. */
const makeDue = (): Promise<unknown> =>
  database.query(
    `update fillrate.lookups set refresh_at = now() - interval '1 s'; update fillrate.rows set due_at = now() - interval '1 s'`,
  )

test.each(['SQL, DMY', 'German', 'Postgres, MDY'])(
  'DateStyle %s: run, rerun, undo and redo',
  async (style) => {
    const name = new URL(database.url).pathname.slice(1)
    await database.query(`
      create table people (id date primary key, email text, at timestamptz, span text, title text);
      insert into people values ('2020-12-03', 'a@x.no', '2020-01-02 03:04:05+00'), ('2020-03-12', 'b@x.no', null);
      alter database "${name}" set DateStyle = '${style}'`)
    const outputs = {
      at: field('at', 'always'),
      span: {
        field: 'at',
        unlisted: true,
        policy: 'always',
        sql: `($value::timestamptz - '2020-01-01Z')::text`,
      },
      title: field('title', 'tracked'),
    }
    for (const email of ['a@x.no', 'b@x.no']) answer(email, '"at": "2021-02-03T04:05:06Z", "title": "CTO"')
    // As JSON, whose dates are the same in all connections that the pool opens meanwhile.
    const dates = () => rows('to_jsonb(p)::text')
    const before = await dates()
    try {
      const first = await run(outputs)
      expect(first.rows).toMatchObject({ picked: 2, enriched: 2 })
      const after = await dates()
      expect((await run(outputs)).rows.picked).toBe(0)
      let last = first.run
      for (const expected of [before, after, before]) {
        const undone = await undo(outputs, last)
        expect(undone.changes).toMatchObject({ restored: 2, kept: 0, rejected: 0 })
        expect(await dates()).toEqual(expected)
        last = undone.run ?? 0
      }
    } finally {
      await database.query(`alter database "${name}" reset DateStyle`)
    }
  },
)

test.skipIf(!hasPgBouncer())('the same behind PgBouncer in transaction mode', async () => {
  const { pathname } = new URL(database.url)
  const url = new URL(database.url)
  // The client accepts no empty password, even if the server requires none.
  url.password ||= 'password'
  const pooler = await startPgBouncer(url)
  url.port = String(pooler.port)
  await database.query(`
    create table people (id int primary key, email text, at timestamptz, length float8);
    insert into people values (1, 'a@x.no', '2020-01-02 03:04:05+00', 0.1 + 0.2::float8);
    alter database "${pathname.slice(1)}" set DateStyle = 'German'; alter database "${pathname.slice(1)}" set extra_float_digits = 0`)
  const outputs = { at: field('at', 'always'), length: field('length', 'always') }
  answer('a@x.no', '"at": "2021-02-03T04:05:06Z", "length": 0.1')
  try {
    const done = async <T>(act: (app: App) => Promise<T>): Promise<T> => withApp(outputs, act, url.href)
    const first = await done((app) => app.run(runRequest()))
    expect(first.rows).toMatchObject({ enriched: 1 })
    expect((await done((app) => app.run(runRequest()))).rows.picked).toBe(0)
    await done((app) => app.undo({ run: first.run, dryRun: false, signal: new AbortController().signal }))
    const restored = await database.query(
      `select length = 0.1 + 0.2::float8 as same, extract(epoch from at)::text as at from people`,
    )
    expect(restored).toEqual([{ same: true, at: '1577934245.000000' }])
  } finally {
    await pooler.stop()
    await database.query(`alter database "${pathname.slice(1)}" reset all`)
  }
})

test('numbers are stored and written as the service sent them', async () => {
  await database.query(`
    create table people (id int primary key, email text, n numeric(30,2), m numeric, t text, j jsonb, a jsonb[], list numeric[]);
    insert into people values (1, 'a@x.no')`)
  const outputs = Object.fromEntries(
    ['n', 'm', 't', 'j', 'a', 'list'].map((name) => [name, field(name, 'blank')]),
  )
  const fields = `"n": 12345678901234567.89, "m": 0.12345678901234567890123, "t": 12.50,
    "j": [9007199254740993, 1.0, "x"], "a": ["123", "true", {"k": 1}, 1.50], "list": [1.10, 12345678901234567890.5]`
  answer('a@x.no', fields)
  expect((await run(outputs)).rows).toMatchObject({ enriched: 1 })
  expect(await rows()).toEqual([
    String.raw`(1,a@x.no,12345678901234567.89,0.12345678901234567890123,12.50,"[9007199254740993, 1.0, ""x""]",` +
      String.raw`"{""\\""123\\"""",""\\""true\\"""",""{\\""k\\"": 1}"",1.50}","{1.10,12345678901234567890.5}")`,
  ])
  const stored = await database.query<{ record: string }>('select record::text from fillrate.lookups')
  expect(stored[0]?.record).toContain('"n":12345678901234567.89')
})

test('tracked arrays with long numbers are updated by the next record', async () => {
  await database.query(`
    create table people (id int primary key, email text, list numeric[], ids bigint[]);
    insert into people values (1, 'a@x.no')`)
  const outputs = { list: field('list', 'tracked'), ids: field('ids', 'tracked') }
  answer('a@x.no', '"list": ["1.10", "12345678901234567890.5"], "ids": [9007199254740993]')
  await run(outputs)
  answer('a@x.no', '"list": ["2.20"], "ids": [9007199254740995]')
  await makeDue()
  const second = await run(outputs)
  expect(second.cells).toMatchObject({ written: 2, protected: 0 })
  expect(await rows()).toEqual(['(1,a@x.no,{2.20},{9007199254740995})'])
  await undo(outputs, second.run)
  expect(await rows()).toEqual(['(1,a@x.no,"{1.10,12345678901234567890.5}",{9007199254740993})'])
})

test("rows whose key no longer fits the column's type count as missing, and block no run", async () => {
  await database.query(`
    create table people (id int primary key, email text, title text);
    insert into people select n, 'p' || n || '@x.no' from generate_series(1, 5) n`)
  for (let n = 1; n <= 5; n++) answer(`p${n}@x.no`, '"title": "CTO"')
  const outputs = { title: 'title' }
  await run(outputs)
  await database.query(`
    update fillrate.rows set state = 'waiting', lookup_id = null, settled_at = null, run_id = null where key <> '1';
    update people set title = null;
    alter table people alter id type uuid using md5(id::text)::uuid`)
  const report = await run(outputs)
  expect(report).toMatchObject({ status: 'completed', rows: { enriched: 5, waiting: 0 } })
  // They are those of rows that the table no longer has.
  const aside = await database.query(
    'select key from fillrate.rows where deleted_at is not null order by key',
  )
  expect(aside.map(({ key }) => key)).toEqual(['1', '2', '3', '4', '5'])
})

test('undoing an older run leaves what a newer run has written, also if both wrote the same', async () => {
  await database.query(`
    create table people (id int primary key, email text, flag boolean, title text);
    insert into people values (1, 'a@x.no')`)
  const outputs = { flag: field('flag', 'always'), title: field('title', 'always') }
  const ids: number[] = []
  for (const flag of ['true', 'false', 'true']) {
    answer('a@x.no', `"flag": ${flag}, "title": "same"`)
    await makeDue()
    ids.push((await run(outputs)).run)
  }
  const [first = 0, second = 0, third = 0] = ids
  const undone = await undo(outputs, first)
  expect(undone.kept).toEqual([
    { source: 's', key: '1', columns: ['flag'], inputs_changed: false, written_by: third },
  ])
  expect(await rows()).toEqual(['(1,a@x.no,t,)'])
  await undo(outputs, third)
  expect(await rows()).toEqual(['(1,a@x.no,f,)'])
  // All three are undone: what the column held before them, and not what the first has written.
  await undo(outputs, second)
  expect(await rows()).toEqual(['(1,a@x.no,,)'])
})
