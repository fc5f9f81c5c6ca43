import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepareFixture, type ChaosFixture } from '../../chaos/fixture.ts'
import { hasPgBouncer } from '../../chaos/pgbouncer.ts'
import * as faults from '../../chaos/postgres-faults.ts'
import { startCrashableServer, type CrashableServer } from '../../chaos/crashable-server.ts'

let server: CrashableServer
let fixture: ChaosFixture
beforeAll(async () => {
  server = await startCrashableServer()
  fixture = await prepareFixture(server.url)
})
afterAll(() => server.stop())

const expectInvariants = (result: faults.FaultResult): void => {
  expect({ ...result, stderr: result.code === 0 ? '' : result.stderr }).toMatchObject({
    code: 0,
    stderr: '',
    rowsLost: 0,
    recordsLost: 0,
    paidTwice: 0,
    cellsWrong: 0,
    otherFaults: 0,
  })
  expect(result.faults).toBeGreaterThan(0)
}

test('a run waits for Postgres when it crashes and restarts, and then continues', async () => {
  const result = await faults.crashPostgres(fixture, server)
  expectInvariants(result)
  // Once, and once when it is back.
  expect(result.stderr.match(/Postgres (?:is away|takes no writes)/g)).toHaveLength(2)
  expect(result.stderr).toMatch(/Over after .*: Postgres is away/)
})

test('a run survives that all its connections are ended repeatedly', async () => {
  expectInvariants(await faults.endConnections(fixture))
})

test('a run waits while the database is read-only', async () => {
  const result = await faults.makeReadOnly(fixture)
  expectInvariants(result)
  // Once, or twice where the reason changes: connections end when it begins and when it is over.
  const told = result.stderr.match(/Postgres (?:is away|takes no writes)/g) ?? []
  expect([1, 2]).toContain(told.length)
})

test('frozen connections are dropped and replaced', async () => {
  expectInvariants(await faults.freezeConnections(fixture, 1_000))
})

test('deadlocks are retried, as are serialization failures and a full disk', async () => {
  expectInvariants(await faults.failWrites(fixture, '40P01'))
})

test('locked rows and tables are skipped, and written when they are free', async () => {
  expectInvariants(await faults.lockSource(fixture))
})

test('a table on which large statements time out is written in smaller ones', async () => {
  expectInvariants(await faults.slowDownSource(fixture))
})

test.skipIf(!hasPgBouncer())(
  'behind PgBouncer in transaction mode (skipped where pgbouncer is not installed)',
  async () => {
    expectInvariants(await faults.runBehindPgBouncer(fixture))
  },
)
