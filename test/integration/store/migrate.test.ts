import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate, pendingMigrations } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const ALL = readdirSync(new URL('../../../migrations/', import.meta.url))
  .map((file) => file.replace(/\.ts$/, ''))
  .toSorted()

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

test('migrating twice does nothing the second time', async () => {
  expect(await migrate(database.db)).toEqual([])
  expect(await pendingMigrations(database.db)).toEqual([])
})

test('several processes that migrate at once create the schema once', async () => {
  await database.pool.query('drop schema fillrate cascade')
  const others = Array.from({ length: 4 }, () => openDatabase({ url: database.url, max: 1 }))
  try {
    const applied = await Promise.all(others.map((db) => migrate(db)))
    expect(applied.flat()).toEqual(ALL)
    expect(await pendingMigrations(database.db)).toEqual([])
  } finally {
    await Promise.all(others.map((db) => db.destroy()))
  }
})

test('migrating neither waits for a lock on a user table nor takes one', async () => {
  await database.pool.query('drop schema fillrate cascade; create table contacts (id int primary key)')
  const other = await database.pool.connect()
  try {
    await other.query('begin; lock table contacts in access exclusive mode')
    expect(await migrate(database.db)).toEqual(ALL)
  } finally {
    await other.query('rollback')
    other.release()
  }
})

test('a role that may create no schema migrates where it was given one', async () => {
  const role = `migrates_${randomUUID().slice(0, 8)}`
  await database.pool.query(`drop schema fillrate cascade; create role ${role} login password 'x'`)
  await database.pool.query(`create schema fillrate authorization ${role}`)
  const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
  const db = openDatabase({ url: url.href, max: 1 })
  try {
    expect(await migrate(db)).toEqual(ALL)
  } finally {
    await db.destroy()
    await database.pool.query(`drop owned by ${role} cascade; drop role ${role}`)
    await migrate(database.db)
  }
})

test.each([
  ['lookups', `insert into fillrate.lookups (kind, key, input, state) values ('email', 'a', '{}', 'done')`],
  [
    'a lease without a token',
    `insert into fillrate.lookups (kind, key, input, state) values ('email', 'b', '{}', 'leased')`,
  ],
  [
    'found without a record',
    `insert into fillrate.lookups (kind, key, input, state, resolved_at) values ('email', 'c', '{}', 'found', now())`,
  ],
  [
    'a settled row that waits',
    `insert into fillrate.rows (source, key, state, settled_at) values ('s', 'k', 'waiting', now())`,
  ],
  [
    'a job of 101',
    `insert into fillrate.jobs (id, state, size, members, deadline_at) values (gen_random_uuid(), 'submitting', 101, array_fill(1::bigint, array[101]), now())`,
  ],
])('an impossible state is refused: %s', async (_, statement) => {
  await expect(database.pool.query(statement)).rejects.toMatchObject({ code: '23514' })
})
