import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { startLeaderProcess, type LeaderProcess } from '../../support/leader-processes.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
let sandbox: Sandbox
let callers: LeaderProcess[] = []
beforeAll(async () => {
  // One call exhausts the window, and the window outlasts the lease of the killed leader.
  sandbox = await startSandbox({ limit: 1, windowMs: 8_000, latencyAfterMs: [10, 40] })
  callers = await Promise.all([start('a'), start('b')])
})
afterAll(async () => {
  await Promise.all(callers.map((caller) => caller.end()))
  await sandbox.close()
})

const start = (name: string): Promise<LeaderProcess> =>
  startLeaderProcess({
    databaseUrl: database.url,
    baseUrl: sandbox.url,
    apiKey: sandbox.keys[0] ?? '',
    concurrency: 8,
    name,
  })

async function currentPid(): Promise<number> {
  const rows = await database.query<{ owner: string }>(
    'select owner from fillrate.leases where leased_until > now()',
  )
  return Number(rows[0]?.owner.split(':')[1] ?? 0)
}

async function isNoted(): Promise<boolean> {
  const rows = await database.query<{ noted: boolean }>(
    "select coalesce((exhausted_until->>'all')::timestamptz > now(), false) as noted from fillrate.rate_limits",
  )
  return rows[0]?.noted ?? false
}

test('the next leader waits for the window that a killed leader exhausted', async () => {
  await expect.poll(isNoted, { interval: 20 }).toBe(true)
  const pid = await currentPid()
  const killed = callers.find((caller) => caller.pid === pid)
  const other = callers.find((caller) => caller.pid !== pid)
  await killed?.kill()

  await expect.poll(currentPid, { interval: 50 }).toBe(other?.pid)
  await expect.poll(() => sandbox.stats().calls.accepted, { interval: 50 }).toBe(2)
  expect(sandbox.stats().calls.refused).toBe(0)
})
