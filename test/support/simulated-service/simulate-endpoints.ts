import type { CalledEndpoint } from '../../../src/domain/spend.ts'
import { EndpointModels } from '../../../src/service/rate-limit/endpoint-models.ts'
import { EventQueue } from './event-queue.ts'
import { seeded } from './random.ts'
import { SimulatedService, type ServiceSettings } from './service.ts'

export interface EndpointSettings {
  readonly seed: number
  readonly durationMs: number
  /** How each limit counts; endpoints that name the same one share it. */
  readonly limits: Readonly<Record<string, ServiceSettings>>
  readonly endpoints: Readonly<Partial<Record<CalledEndpoint, EndpointWork>>>
  readonly concurrency: number
  /** Milliseconds to the service, and as many back: from, to. */
  readonly transit: readonly [number, number]
}

export interface EndpointWork {
  readonly limit: string
  /** Milliseconds from the start from which on there is work, without end. */
  readonly from: number
}

export interface EndpointOutcome {
  /** In the second half of the time. */
  readonly accepted: Readonly<Partial<Record<CalledEndpoint, number>>>
  readonly rejected: number
  readonly models: EndpointModels
}

const start = Date.UTC(2026, 0, 1, 12, 0, 0, 317)

/** Plays several endpoints of one key against their limits, in virtual time. */
export function simulateEndpoints(settings: EndpointSettings): EndpointOutcome {
  const random = seeded(settings.seed)
  const queue = new EventQueue(start)
  const services = new Map(
    Object.entries(settings.limits).map(([name, one]) => [name, new SimulatedService(one, start, random)]),
  )
  const models = new EndpointModels({ onPersisted: () => {}, now: () => queue.now })
  const work = Object.entries(settings.endpoints) as [CalledEndpoint, EndpointWork][]
  const accepted: Partial<Record<CalledEndpoint, number>> = {}
  const servedAt = new Map<CalledEndpoint, number>()
  const inFlight = new Map<CalledEndpoint, number>()
  const [from, to] = settings.transit
  const transit = (): number => from + random() * (to - from)
  const end = start + settings.durationMs
  let rejected = 0
  let lookAt = Number.POSITIVE_INFINITY

  function pump(): void {
    const { now } = queue
    if (now >= end) return
    // Whoever waits longest is served first, as in the limiter's queue.
    work.sort(([a], [b]) => (servedAt.get(a) ?? 0) - (servedAt.get(b) ?? 0))
    const wanting = work.filter(([, one]) => now >= start + one.from)
    models.onDemand(new Set(wanting.map(([endpoint]) => endpoint)), now)
    const times = wanting.flatMap(([endpoint, one]) => {
      const free = settings.concurrency - (inFlight.get(endpoint) ?? 0)
      const count = models.grantable(endpoint, free, now)
      if (count > 0) {
        models.grant(endpoint, count, now)
        servedAt.set(endpoint, now)
        inFlight.set(endpoint, (inFlight.get(endpoint) ?? 0) + count)
        for (let index = 0; index < count; index++)
          queue.at(now + 1 + index * 0.05, () => send(endpoint, one.limit))
      }
      return count < free ? (models.nextCheckAt(endpoint, now) ?? []) : []
    })
    const at = Math.max(now + 0.5, Math.min(...times))
    if (!Number.isFinite(at) || (at >= lookAt && lookAt > now)) return
    lookAt = at
    queue.at(at, () => {
      if (lookAt === at) lookAt = Number.POSITIVE_INFINITY
      pump()
    })
  }

  function send(endpoint: CalledEndpoint, limit: string): void {
    const call = models.sent(endpoint, queue.now)
    queue.at(queue.now + transit(), () => {
      const arrival = services.get(limit)?.arrive(queue.now)
      if (arrival === undefined) throw new Error(`no limit ${limit}`)
      if (arrival.status === 429) rejected++
      else if (queue.now >= start + settings.durationMs / 2)
        accepted[endpoint] = (accepted[endpoint] ?? 0) + 1
      queue.at(queue.now + transit(), () => {
        models.answered(call, arrival, queue.now)
        inFlight.set(endpoint, (inFlight.get(endpoint) ?? 0) - 1)
        pump()
      })
    })
  }

  for (const [, one] of work) queue.at(start + one.from, pump)
  while (!queue.isEmpty) queue.step()
  return { accepted, rejected, models }
}
