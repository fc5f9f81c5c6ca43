import pino from 'pino'
import { once } from 'node:events'
import type { DocumentedLimit } from '../../src/domain/service/documented-limit.ts'
import { LeaderElector, type Leadership } from '../../src/runs/leadership.ts'
import { Breaker } from '../../src/service/breaker.ts'
import { EnrichmentClient } from '../../src/service/client.ts'
import { openDatabase } from '../../src/store/open.ts'

/** The process's only argument, as JSON. */
export interface LeaderTask {
  readonly databaseUrl: string
  readonly baseUrl: string
  readonly apiKey: string
  readonly concurrency: number
  /** Marks the inputs that this process requests. */
  readonly name: string
  /** Limits that no header states. Default: none. */
  readonly documented?: readonly DocumentedLimit[]
}

/**
 * A process that calls the service while it is the leader, as a run does, with endless work: for tests of several
 * processes, one of which is killed. Releases its lease and exits when its parent disconnects.
 */
const task = JSON.parse(process.argv[2] ?? '') as LeaderTask
const db = openDatabase({ url: task.databaseUrl, max: 2 })
const client = new EnrichmentClient({ ...task, connections: task.concurrency })
const stopping = new AbortController()
process.on('disconnect', () => stopping.abort())
process.send?.({ pid: process.pid })
let requests = 0

while (!stopping.signal.aborted) {
  const leadership = await new LeaderElector({
    db,
    scope: 'the key',
    service: 0,
    owner: `test:${process.pid}:${requests}`,
    log: pino({ level: 'silent' }),
    reserve: 0.1,
    breaker: new Breaker(),
    ...(task.documented && { documented: task.documented }),
  }).acquire()
  if (leadership === null) {
    await Promise.race([
      once(stopping.signal, 'abort'),
      new Promise((resolve) => setTimeout(resolve, 1_000).unref()),
    ])
    continue
  }
  await callWhileLeader(leadership)
  await leadership.end()
}
await client.close()
await db.destroy()

async function callWhileLeader({ limiter, lost }: Leadership): Promise<void> {
  const signal = AbortSignal.any([lost, stopping.signal])
  const pending = new Set<Promise<void>>()
  while (!signal.aborted) {
    const free = task.concurrency - pending.size
    if (free === 0) {
      await Promise.race(pending)
      continue
    }
    const permits = await limiter.acquire(free, 'low', signal).catch(() => null)
    if (permits === null) break
    for (let index = 0; index < permits.count; index++) {
      const observer = permits.use()
      const request: Promise<void> = client
        .enrichPerson({ email: `${task.name}-${++requests}@example.com` }, { observer })
        .then(
          () => {},
          () => {},
        )
        .finally(() => {
          observer.end()
          pending.delete(request)
        })
      pending.add(request)
    }
  }
  await Promise.all(pending)
}
