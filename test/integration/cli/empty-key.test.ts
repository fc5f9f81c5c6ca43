import { expect, test } from 'vitest'
import { openCommandLine } from './command-line.ts'

const { database, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create table people (id text primary key, email text, title text);
      insert into people select case n when 1 then '' else 'k' || n end, 'person' || n || '@example.com'
        from generate_series(1, 3) n`),
  config: {
    sources: {
      people: { kind: 'person', table: 'people', inputs: { email: 't.email' }, outputs: { title: 'title' } },
    },
    budget: 1_000,
  },
})

const json = async (...words: string[]) => JSON.parse((await here([...words, '--json'])).stdout)
const run = async () => (await json('run', '--route', 'sync')).rows.picked as number

test('a row whose key is an empty text is picked, retried and taken over as any other', async () => {
  expect(await run()).toBe(3)
  expect((await json('explain', 'people', '')).state.state).toMatch(/enriched|not_found/)
  await database.query('update people set title = null')
  await database.query(`update fillrate.rows set state = 'failed', failure = 'failed', reason = 'test'`)
  expect((await json('retry', 'people', '--dry-run')).rows).toBe(3)
  // As a run leaves them that has died.
  await database.query(
    `update fillrate.rows set state = 'waiting', failure = null, settled_at = null, due_at = null, run_id = null`,
  )
  expect(await run()).toBe(3)
  expect(await database.scalar(`select count(*)::int from fillrate.rows where state = 'waiting'`)).toBe(0)
})
