import pino from 'pino'
import { once } from 'node:events'
import { LeaderElector, type Leadership } from '../../src/runs/leader.ts'
import { createBreaker } from '../../src/service/breaker.ts'
import { EnrichmentClient } from '../../src/service/client.ts'
import { openDatabase } from '../../src/store/open.ts'

/** What it is told by its only argument, as JSON. */
export interface CallerTask {
  readonly databaseUrl: string
  readonly baseUrl: string
  readonly apiKey: string
  readonly concurrency: number
  /** Told apart in the inputs that it asks. */
  readonly name: string
}

/**
 * A process that calls the service whenever it is its turn, as a run does, with work without end: for what is only
 * seen with several processes, and when one of them is killed. Ends its turn and itself when its parent lets go.
 */
const task = JSON.parse(process.argv[2] ?? '') as CallerTask
const db = openDatabase({ url: task.databaseUrl, max: 2 })
const client = new EnrichmentClient({ ...task, connections: task.concurrency })
const stopping = new AbortController()
process.on('disconnect', () => stopping.abort())
process.send?.({ pid: process.pid })
let asked = 0

while (!stopping.signal.aborted) {
  const turn = await new LeaderElector({
    db,
    scope: () => 'the key',
    owner: `test:${process.pid}:${asked}`,
    log: pino({ level: 'silent' }),
    reserve: 0.1,
    breaker: createBreaker(),
  }).acquire()
  if (turn === null) {
    await Promise.race([
      once(stopping.signal, 'abort'),
      new Promise((later) => setTimeout(later, 1_000).unref()),
    ])
    continue
  }
  await callAway(turn)
  await turn.end()
}
await client.close()
await db.destroy()

async function callAway({ limiter, lost }: Leadership): Promise<void> {
  const signal = AbortSignal.any([lost, stopping.signal])
  const underWay = new Set<Promise<void>>()
  while (!signal.aborted) {
    const free = task.concurrency - underWay.size
    if (free === 0) {
      await Promise.race(underWay)
      continue
    }
    const permits = await limiter.acquire(free, 'low', signal).catch(() => null)
    if (permits === null) break
    for (let index = 0; index < permits.count; index++) {
      const observer = permits.use()
      const one: Promise<void> = client
        .enrichPerson({ email: `${task.name}-${++asked}@example.com` }, { observer })
        .then(
          () => {},
          () => {},
        )
        .finally(() => {
          observer.end()
          underWay.delete(one)
        })
      underWay.add(one)
    }
  }
  await Promise.all(underWay)
}
