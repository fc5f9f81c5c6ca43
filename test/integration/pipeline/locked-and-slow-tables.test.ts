import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { undoRun } from '../../../src/actions/undo/undo.ts'
import { sharedBatchSize } from '../../../src/pipeline/batch-size.ts'
import * as writeBack from '../../../src/pipeline/write-back.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answeredPeople, whileOpen, type AnsweredPeople } from '../../support/answered-people.ts'

const database = useTestDatabase()
afterEach(() => dropTrigger())

const writeOnce = ({ deps, source }: AnsweredPeople) => writeBack.writeBackBatch(deps, source)

/**
 * Until there is nothing more to do at once, despite any errors.
 * @returns the rows that were written, and those that are deferred: on a slow machine one may be due again, and deferred again
 */
async function writeAll({ deps, source }: AnsweredPeople): Promise<{ rows: number; deferred: number }> {
  for (let rows = 0; ;) {
    const result = await writeBack.writeBackBatch(deps, source)
    rows += result.rows
    if (result.rows === 0 && !result.more) {
      const deferred = await database.count(`fillrate.rows where state = 'waiting' and due_at is not null`)
      return { rows, deferred }
    }
  }
}

/** Make deferred rows due now. */
const passTime = (): Promise<unknown> =>
  database.query(`update fillrate.rows set due_at = now() where state = 'waiting' and due_at is not null`)

const titles = async (where = 'true'): Promise<unknown[]> =>
  (await database.query<{ title: string | null }>(`select title from people where ${where} order by id`)).map(
    (row) => row.title,
  )

const stateOf = async (key: string): Promise<unknown> =>
  (
    await database.query<{ state: string; reason: string | null; due: boolean }>(
      `select state, reason, due_at is not null as due from fillrate.rows where key = $1`,
      [key],
    )
  )[0]

/** Runs a statement for each updated row of the table. */
const trigger = (body: string): Promise<unknown> =>
  database.query(`
    create function act() returns trigger language plpgsql as $$ begin ${body} return new; end $$;
    create trigger act before update on people for each row execute function act();`)

const dropTrigger = (): Promise<unknown> =>
  database.query('drop trigger if exists act on people; drop function if exists act()')

describe('a row that another transaction has locked', () => {
  test('keeps no other row waiting, where whole batches are of locked rows', async () => {
    const people = await answeredPeople(database, 50, { sourceTimeoutMs: 3_000 })
    await whileOpen(database, 'select from people where id < 50 for update', async () => {
      sharedBatchSize(people.source).halve(8)
      const { rows, deferred } = await writeAll(people)
      expect(rows).toBe(1)
      // On a slow machine they are due again before the last batch.
      expect(deferred).toBeGreaterThanOrEqual(49)
    })
  })

  test('is deferred, and the others of its batch are written at once', async () => {
    const people = await answeredPeople(database, 50, { sourceTimeoutMs: 3_000 })
    await whileOpen(database, `update people set title = 'typed' where id = 30`, async () => {
      expect(await writeOnce(people)).toMatchObject({ rows: 49, enriched: 49, deferred: 1 })
      expect(await titles('title is null')).toEqual([null])
      expect(await stateOf('30')).toMatchObject({
        state: 'waiting',
        reason: expect.stringContaining('another transaction has locked its row') as string,
        due: true,
      })
      // No busy loop: it is not polled before its due time.
      expect(await writeOnce(people)).toMatchObject({ rows: 0, deferred: 0, more: false })
      await passTime()
      expect(await writeOnce(people)).toMatchObject({ rows: 0, deferred: 1, more: false })
    })
    await passTime()
    expect(await writeAll(people)).toEqual({ rows: 1, deferred: 0 })
    expect(await titles('id = 30')).toEqual(['Title 30'])
    expect(await stateOf('30')).toMatchObject({ state: 'enriched', reason: null })
  })

  test('never makes the user’s own statement wait, or fail by a deadlock', async () => {
    const people = await answeredPeople(database, 50, { sourceTimeoutMs: 5_000 })
    const person = await database.pool.connect()
    await person.query(`begin; update people set title = 'typed' where id = 40`)
    const writing = writeAll(people)
    // The row before it in key order: a batch that waited for row 40 would hold row 10 meanwhile.
    await person.query(`select pg_sleep(1.2); update people set title = 'typed' where id = 10`)
    await person.query('commit')
    person.release()
    await writing
    await passTime()
    await writeAll(people)
    expect(await titles('id in (10, 40)')).toEqual(['typed', 'typed'])
    expect(await titles('title is null')).toEqual([])
  })

  test('is finished as gone if it was deleted under the lock', async () => {
    const people = await answeredPeople(database, 3)
    await whileOpen(database, 'delete from people where id = 2; savepoint s', async () => {
      expect(await writeOnce(people)).toMatchObject({ rows: 2, deferred: 1 })
    })
    await database.query('delete from people where id = 2')
    await passTime()
    await writeAll(people)
    expect(await stateOf('2')).toMatchObject({ state: 'unchanged' })
  })
})

test('a batch sends seven statements and a poll, and one that the database rejects is written again with a savepoint', async () => {
  const people = await answeredPeople(database, 5)
  const verbs = (): (string | undefined)[] =>
    database.statements().map((text) => /begin|rollback to|\w+/.exec(text.trim())?.[0])
  verbs()
  expect(await writeOnce(people)).toMatchObject({ rows: 5, enriched: 5 })
  const [poll, claim, write, reset, finish, dequeue] = [
    'select',
    'select',
    'with',
    'select',
    'with',
    'delete',
  ]
  expect(verbs()).toEqual([poll, 'begin', claim, write, reset, finish, dequeue, 'commit'])

  const rejecting = await answeredPeople(database, 5)
  await trigger(`if new.id = 2 then raise 'not this one'; end if;`)
  verbs()
  expect(await writeOnce(rejecting)).toMatchObject({ rows: 5, enriched: 4 })
  const bounds = verbs().filter((verb) => ['begin', 'savepoint', 'rollback', 'commit'].includes(verb ?? ''))
  expect(bounds.slice(0, 4)).toEqual(['begin', 'rollback', 'begin', 'savepoint'])
  expect(await titles()).toEqual(['Title 1', null, 'Title 3', 'Title 4', 'Title 5'])
})

test('a locked table defers its rows, and fails nothing', async () => {
  const people = await answeredPeople(database, 20, { sourceTimeoutMs: 3_000 })
  await whileOpen(database, 'lock table people in access exclusive mode', async () => {
    expect(await writeAll(people)).toEqual({ rows: 0, deferred: 20 })
    expect(await stateOf('7')).toMatchObject({
      state: 'waiting',
      reason: expect.stringContaining('locked the table') as string,
    })
  })
  await passTime()
  expect(await writeAll(people)).toEqual({ rows: 20, deferred: 0 })
})

describe('a slow table', () => {
  test('is written in batches that fit the statement timeout', async () => {
    const people = await answeredPeople(database, 15, { sourceTimeoutMs: 1_000 })
    await trigger('perform pg_sleep(0.1);')
    expect(await writeAll(people)).toEqual({ rows: 15, deferred: 0 })
    expect(await titles('title is null')).toEqual([])
  })

  test('rejects only the row that alone takes longer, with a reason', async () => {
    const people = await answeredPeople(database, 4, { sourceTimeoutMs: 1_000 })
    await trigger('if new.id = 3 then perform pg_sleep(60); end if;')
    expect(await writeAll(people)).toEqual({ rows: 4, deferred: 0 })
    expect(await stateOf('3')).toMatchObject({
      state: 'write_rejected',
      reason: expect.stringMatching(/alone took longer than 1 s.*triggers/) as string,
    })
    expect(await titles('title is null')).toHaveLength(1)
  })

  test('rejects the row wherever it was moved when its batch was cancelled', async () => {
    const people = await answeredPeople(database, 1, { sourceTimeoutMs: 1_000 })
    await trigger('perform pg_sleep(60);')
    const over = new AbortController()
    const move = async (): Promise<void> => {
      while (!over.signal.aborted) {
        // Waits for the batch, and then gives the row another place.
        await database.query(`update fillrate.rows set notes = notes where state = 'waiting'`)
        await sleep(100)
      }
    }
    const writeOne = async (): ReturnType<typeof writeAll> => {
      // A claim skips the row at the moment at which it is moved.
      for (;;) {
        const done = await writeAll(people)
        if (done.rows > 0) return done
      }
    }
    const written = writeOne().finally(() => over.abort())
    expect(await Promise.all([written, move()])).toMatchObject([{ rows: 1, deferred: 0 }, undefined])
    expect(await stateOf('1')).toMatchObject({ state: 'write_rejected' })
  })
})

describe('a trigger that raises a conflict code', () => {
  test.each(['55P03', '40001', '40P01'])('always, with %s: only its row is rejected', async (code) => {
    const people = await answeredPeople(database, 10)
    await trigger(`if new.id = 4 then raise exception 'not this one' using errcode = '${code}'; end if;`)
    expect(await writeAll(people)).toEqual({ rows: 10, deferred: 0 })
    expect(await stateOf('4')).toMatchObject({
      state: 'write_rejected',
      reason: expect.stringContaining('not this one') as string,
    })
    expect(await titles('title is null')).toHaveLength(1)
  })

  test('because of a row of a side table: its row is deferred, and the others are written in one batch', async () => {
    const people = await answeredPeople(database, 200)
    await database.query(`
      create table employers (id int primary key, people int not null default 0);
      insert into employers select n from generate_series(0, 1) n`)
    await trigger('update employers set people = people + 1 where id = (old.id = 77)::int;')
    await whileOpen(database, 'select from employers where id = 1 for update', async () => {
      expect(await writeOnce(people)).toMatchObject({ rows: 199, deferred: 1 })
      expect(await stateOf('77')).toMatchObject({
        state: 'waiting',
        reason: expect.stringContaining('what a trigger or a constraint needs') as string,
        due: true,
      })
      await passTime()
      expect(await writeAll(people)).toEqual({ rows: 0, deferred: 1 })
    })
    await passTime()
    expect(await writeAll(people)).toEqual({ rows: 1, deferred: 0 })

    await dropTrigger()
    // Each row waits: they are deferred without a try of each.
    const waiting = await answeredPeople(database, 1_000, { sourceTimeoutMs: 3_000 })
    await trigger('update employers set people = people + 1 where id = 0;')
    await whileOpen(database, 'lock table employers in access exclusive mode', async () => {
      expect(await writeOnce(waiting)).toMatchObject({ rows: 0, deferred: 1_000 })
    })
    await passTime()
    expect(await writeAll(waiting)).toEqual({ rows: 1_000, deferred: 0 })
    await database.query('drop table employers cascade')
  })

  test('because of its own lock wait: its row is deferred', async () => {
    const people = await answeredPeople(database, 10)
    await database.query('create table counters (id int primary key); insert into counters values (1)')
    await trigger('if new.id = 4 then perform from counters for update nowait; end if;')
    await whileOpen(database, 'select from counters for update', async () => {
      expect(await writeAll(people)).toEqual({ rows: 9, deferred: 1 })
      expect(await stateOf('4')).toMatchObject({ state: 'waiting', due: true })
    })
    await passTime()
    expect(await writeAll(people)).toEqual({ rows: 1, deferred: 0 })
    await database.query('drop table counters')
  })
})

test('a disk that is full for a row’s trigger costs no row: it is deferred, and the others are written', async () => {
  const people = await answeredPeople(database, 20)
  const copy = `execute 'copy (select generate_series(1, 10000)) to ''/dev/full''';`
  await trigger(`if new.id = 4 then ${copy} end if;`)
  expect(await writeAll(people)).toEqual({ rows: 19, deferred: 1 })
  expect(await stateOf('4')).toEqual({
    state: 'waiting',
    reason: 'Postgres lacks resources (53100): retried',
    due: true,
  })
  await passTime()
  expect(await writeAll(people)).toEqual({ rows: 0, deferred: 1 })
  await dropTrigger()
  await passTime()
  expect(await writeAll(people)).toEqual({ rows: 1, deferred: 0 })
})

describe('an undo', () => {
  const undoPeople = async ({ deps }: AnsweredPeople) => {
    await database.query(
      `update fillrate.runs set leased_until = now() - interval '1 s', state = 'completed', finished_at = now() where id = 1`,
    )
    return undoRun(
      { ...deps, owner: 'test' },
      { run: 1, dryRun: false, signal: new AbortController().signal },
    )
  }

  test('reverts what is not locked, reports the rest, and reverts it when run again', async () => {
    const people = await answeredPeople(database, 30, { sourceTimeoutMs: 3_000 })
    await writeAll(people)
    await whileOpen(database, 'select from people where id = 9 for update', async () => {
      const { status, changes } = await undoPeople(people)
      expect({ status, changes }).toMatchObject({
        status: 'completed',
        changes: { total: 30, restored: 29, remaining: 1, kept: 0, rejected: 0 },
      })
    })
    expect(await titles('title is not null')).toEqual(['Title 9'])
    const { changes } = await undoPeople(people)
    expect(changes).toMatchObject({ total: 30, restored: 1, undone_before: 29, remaining: 0 })
    expect(await titles('title is not null')).toEqual([])
  })

  test('continues in smaller batches if the table is slow', async () => {
    const people = await answeredPeople(database, 4, { sourceTimeoutMs: 1_000 })
    await writeAll(people)
    await trigger('if new.id = 2 then perform pg_sleep(60); end if;')
    const { changes, failed } = await undoPeople(people)
    expect(changes).toMatchObject({ total: 4, restored: 3, rejected: 1, remaining: 0 })
    expect(failed).toMatchObject([{ key: '2', outcome: 'rejected' }])
  })
})
