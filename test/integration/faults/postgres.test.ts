import { afterAll, beforeAll, expect, test } from 'vitest'
import { LEASE_MS } from '../../../src/pipeline/deps.ts'
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

/**
 * Each outage is logged when it begins and when it is over, and never a second time in between. A slow machine may see several:
 * connections end once more when the server starts, or it does not answer in time. A process may end before the last is over.
 */
function expectOutages({ stderr }: faults.FaultResult): void {
  const logged = [...stderr.matchAll(faults.OUTAGE)].map(([text]) =>
    text.startsWith('Over') ? 'end' : 'begin',
  )
  expect(logged).toContain('begin')
  expect(logged).toEqual(logged.map((_, n) => (n % 2 === 0 ? 'begin' : 'end')))
}

test('a run waits for Postgres when it crashes and restarts, and then continues', async () => {
  const result = await faults.crashPostgres(fixture, server)
  expectInvariants(result)
  expectOutages(result)
  expect(result.stderr).toMatch(/Over after .*: Postgres is away/)
})

test('a run survives that all its connections are ended repeatedly', async () => {
  expectInvariants(await faults.endConnections(fixture))
})

test('a run waits while the database is read-only', async () => {
  const result = await faults.makeReadOnly(fixture)
  expectInvariants(result)
  expectOutages(result)
})

test('answers that a read-only database holds up for longer than their leases are stored, and not asked for again', async () => {
  const result = await faults.makeReadOnly(fixture, LEASE_MS + 3_000)
  expectInvariants(result)
  expect(result.inDoubt).toBe(0)
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
