import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepareGround, type Ground } from '../../chaos/ground.ts'
import { hasPgBouncer } from '../../chaos/pgbouncer.ts'
import * as faults from '../../chaos/postgres-faults.ts'
import { startOwnServer, type OwnServer } from '../../chaos/server.ts'

let server: OwnServer
let ground: Ground
beforeAll(async () => {
  server = await startOwnServer()
  ground = await prepareGround(server.url)
})
afterAll(() => server.stop())

const expectUnharmed = (survived: faults.Survived): void => {
  expect({ ...survived, stderr: survived.code === 0 ? '' : survived.stderr }).toMatchObject({
    code: 0,
    stderr: '',
    rowsLost: 0,
    recordsLost: 0,
    paidTwice: 0,
    cellsWrong: 0,
    otherwise: 0,
  })
  expect(survived.times).toBeGreaterThan(0)
}

test('Postgres crashes and starts again under a run, which waits and goes on', async () => {
  const survived = await faults.crash(ground, server)
  expectUnharmed(survived)
  expect(survived.stderr).toContain('waiting for Postgres')
})

test('every connection is ended, again and again', async () => {
  expectUnharmed(await faults.terminate(ground))
})

test('a database that takes no writes is waited for', async () => {
  const survived = await faults.readOnly(ground)
  expectUnharmed(survived)
  expect(survived.stderr).toMatch(/read-only/)
})

test('connections that go silent are given up, and others opened', async () => {
  expectUnharmed(await faults.silence(ground, 1_000))
})

test('deadlocks are met by trying again, like a serialization failure or a full disk', async () => {
  expectUnharmed(await faults.collide(ground, '40P01'))
})

test('people lock rows and whole tables: the run goes around them, and writes them when they are free', async () => {
  expectUnharmed(await faults.lockedRows(ground))
})

test('a table on which large statements take too long is written in smaller ones', async () => {
  expectUnharmed(await faults.slowTable(ground))
})

test.skipIf(!hasPgBouncer())(
  'behind PgBouncer in transaction mode (skipped where pgbouncer is not installed)',
  async () => {
    expectUnharmed(await faults.behindPgBouncer(ground))
  },
)
