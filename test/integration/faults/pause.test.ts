import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { holdsInvariants } from '../../chaos/invariants.ts'
import { prepareFixture, type ChaosFixture } from '../../chaos/fixture.ts'
import { LEASE_LOST, pauseProcess } from '../../chaos/process-faults.ts'

let fixture: ChaosFixture
beforeAll(async () => {
  fixture = await prepareFixture(inject('postgresUrl'))
})
afterAll(() => fixture.remove())

test('a process stopped for longer than its leases overwrites nothing of its successor when it resumes', async () => {
  const { code, stderr, ...report } = await pauseProcess(fixture)
  expect(holdsInvariants(report), `${JSON.stringify(report)} ${stderr}`).toBe(true)
  expect(report.inDoubt).toBeGreaterThan(0)
  // It reports the lost lease at its next heartbeat or at its end.
  expect(stderr).toMatch(LEASE_LOST)
  expect(code).toBe(0)
})
