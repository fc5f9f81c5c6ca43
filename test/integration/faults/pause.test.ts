import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { isUnharmed } from '../../chaos/damage.ts'
import { prepareGround, type Ground } from '../../chaos/ground.ts'
import { pause } from '../../chaos/pause.ts'

let ground: Ground
beforeAll(async () => {
  ground = await prepareGround(inject('postgresUrl'))
})
afterAll(() => ground.remove())

test('a process that was stopped past its leases overwrites nothing of its successor when it wakes', async () => {
  const { code, stderr, ...survived } = await pause(ground)
  expect(isUnharmed(survived), `${JSON.stringify(survived)} ${stderr}`).toBe(true)
  expect(survived.inDoubt).toBeGreaterThan(0)
  // It says that it was taken for dead, at its next heartbeat or at its end.
  expect(stderr).toMatch(/taken (this run )?for dead/)
  expect(code).toBe(0)
})
