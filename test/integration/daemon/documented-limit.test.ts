import { afterAll, beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../../support/database.ts'
import { type LeaderProcess, startLeaderProcess } from '../../support/leader-processes.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'
import { createCounter } from '../../support/simulated-service/counters.ts'

/** The window outlasts the lease of a killed leader. */
const LIMIT = { calls: 12, windowMs: 8_000, endpoint: null }

const counter = createCounter('sliding-log', LIMIT.calls, LIMIT.windowMs)
const accepted: { at: number; name: string }[] = []
let refused = 0

const database = useTestDatabase()
let service: LoopbackService
let callers: readonly LeaderProcess[] = []
beforeAll(async () => {
  service = await startLoopback(({ body }, response) => {
    const name = /"email":"(\w)-/.exec(body)?.[1] ?? ''
    const isAccepted = counter.arrive(Date.now()).accepted
    if (isAccepted) accepted.push({ at: Date.now(), name })
    else refused++
    answerJson(response, isAccepted ? 404 : 429, { error: 'no match' })
  })
  const task = {
    databaseUrl: database.url,
    baseUrl: service.url,
    apiKey: 'key',
    concurrency: 1,
    documented: [LIMIT],
  }
  callers = await Promise.all(['a', 'b'].map((name) => startLeaderProcess({ ...task, name })))
})
afterAll(async () => {
  await Promise.all(callers.map((caller) => caller.end()))
  await service.close()
})

test('a limit that no header states holds over the death of the leader', async () => {
  await expect.poll(() => accepted.length, { interval: 5 }).toBeGreaterThanOrEqual(5)
  const first = accepted[0]?.name
  await callers[first === 'a' ? 0 : 1]?.kill()
  const known = accepted.length
  // The other process goes on, with no more than the first one has left: what was noted ahead counts as called.
  await expect.poll(() => accepted.some(({ name }) => name !== first), { interval: 50 }).toBe(true)
  await expect.poll(() => accepted.length, { interval: 50 }).toBeGreaterThan(LIMIT.calls)
  expect(known).toBeLessThanOrEqual(LIMIT.calls)
  expect(refused).toBe(0)
})
