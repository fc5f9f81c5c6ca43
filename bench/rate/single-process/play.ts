import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from '../../../src/service/rate-limit/limiter.ts'
import { createCounter } from '../../../test/support/simulated-service/counters.ts'
import type { Measured } from '../targets.ts'

export interface InProcessCase {
  readonly limit: number
  readonly windowMs: number
  readonly concurrency: number
  readonly durationMs: number
}

const now = (): number => performance.timeOrigin + performance.now()

/** A window that the first request starts, in this process: answers take a while, and no network is involved. */
class Service {
  readonly #counter
  readonly acceptedAt: number[] = []
  readonly windowStarts: number[] = []
  rejected = 0

  constructor({ limit, windowMs }: InProcessCase) {
    this.#counter = createCounter('first-request', limit, windowMs)
  }

  arrive(): { readonly status: number; readonly headers: Record<string, string>; readonly at: number } {
    const at = now()
    const verdict = this.#counter.arrive(at)
    if (verdict.window > this.windowStarts.length) this.windowStarts.push(at)
    if (verdict.accepted) this.acceptedAt.push(at)
    else this.rejected++
    const headers = {
      date: new Date(at).toUTCString(),
      'x-ratelimit-limit': String(verdict.limit),
      'x-ratelimit-remaining': String(verdict.remaining),
      'x-ratelimit-reset': String(Math.ceil(verdict.resetAt / 1000)),
    }
    return { status: verdict.accepted ? 200 : 429, headers, at }
  }
}

/** The cost of the limiter with Bottleneck: in real time, without HTTP. */
export async function playInProcess(one: InProcessCase): Promise<Measured & { readonly cpuMs: number }> {
  const service = new Service(one)
  const limiter = new Limiter({})
  const before = process.cpuUsage()
  const stop = new AbortController()
  const pumping = pump(limiter, service, one.concurrency, stop.signal)
  await sleep(one.durationMs)
  stop.abort()
  await pumping
  await limiter.stop()
  const { user, system } = process.cpuUsage(before)
  const { acceptedAt, windowStarts, rejected } = service
  const share = (from = Number.NaN, to = Number.NaN): number =>
    acceptedAt.filter((at) => at >= from && at < to).length / ((one.limit * (to - from)) / one.windowMs)
  return {
    whole: share(windowStarts[0], windowStarts.at(-1)),
    steady: share(windowStarts[3], windowStarts.at(-1)),
    calls: acceptedAt.length + rejected,
    rejected,
    cpuMs: (user + system) / 1_000,
  }
}

async function pump(limiter: Limiter, service: Service, slots: number, stop: AbortSignal): Promise<void> {
  let underWay = 0
  let freed = Promise.withResolvers<void>()
  while (!stop.aborted) {
    if (underWay === slots) {
      await freed.promise
      freed = Promise.withResolvers()
      continue
    }
    const permits = await limiter.acquire(slots - underWay, 'low', stop).catch(() => null)
    if (permits === null) return
    for (let index = 0; index < permits.count; index++) {
      const call = permits.use()
      underWay++
      call.sent(0)
      setTimeout(
        () => {
          const answer = service.arrive()
          setTimeout(
            () => {
              call.answered(answer)
              underWay--
              freed.resolve()
            },
            15 + Math.random() * 45,
          )
        },
        2 + Math.random() * 18,
      )
    }
  }
}
