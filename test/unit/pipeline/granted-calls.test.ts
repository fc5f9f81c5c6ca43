import { describe, expect, it } from 'vitest'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { withGrantedCalls } from '../../../src/pipeline/granted-calls.ts'
import { allowedByBreaker } from '../../../src/pipeline/look-up/call-service.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import type { BreakerState } from '../../../src/service/breaker.ts'

const { signal } = new AbortController()

/** A limiter that grants whatever is wanted. */
const limiter = {
  acquire: (count: number) => Promise.resolve({ count, use: () => ({ end: () => {} }), release: () => {} }),
} as unknown as CallDeps['limiter']

const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5))

/** Calls that end when they are told to. */
function createCalls() {
  const open: (() => void)[] = []
  let started = 0
  return {
    open,
    started: () => started,
    call: (item: number): Promise<number> => {
      started++
      return new Promise((resolve) => open.push(() => resolve(item)))
    },
  }
}

describe('withGrantedCalls', () => {
  it('makes its calls with slots that become free later', async () => {
    const slots = new PrioritySemaphore(4)
    slots.take(3, 'normal')
    const { open, started, call } = createCalls()
    const options = { wanted: 6, endpoint: 'bulk', priority: 'normal', signal } as const
    const made = withGrantedCalls({ limiter, slots }, options, ({ each }) => each([1, 2, 3, 4, 5, 6], call))
    await settle()
    expect(started()).toBe(1)

    slots.release(2)
    await settle()
    expect(started()).toBe(3)
    slots.release(1)
    await settle()
    expect(started()).toBe(4)
    expect(slots.free('normal')).toBe(0)

    while (started() < 6) {
      open.shift()?.()
      await settle()
    }
    // No call waits for a slot: from now on others may take them.
    open.shift()?.()
    await settle()
    expect(slots.free('normal')).toBe(1)
    for (const end of open) end()
    expect(await made).toEqual([1, 2, 3, 4, 5, 6])
    expect(slots.free('normal')).toBe(4)
  })

  it('holds no slot while it waits for permits, which may take a minute', async () => {
    const slots = new PrioritySemaphore(1)
    const waiting = Promise.withResolvers<void>()
    const endpoints: unknown[] = []
    const slow = {
      acquire: async (count: number, _priority: unknown, _signal: unknown, endpoint: unknown) => {
        endpoints.push(endpoint)
        await waiting.promise
        return limiter.acquire(count, 'normal')
      },
    } as unknown as CallDeps['limiter']
    const options = { wanted: 2, endpoint: 'poll', priority: 'normal', signal } as const
    const made = withGrantedCalls({ limiter: slow, slots }, options, ({ each }) => each([1], settle))
    await settle()
    // A call of another endpoint goes on.
    expect(slots.take(1, 'normal')).toBe(1)
    waiting.resolve()
    await settle()
    slots.release(1)
    expect(await made).toHaveLength(1)
    expect(endpoints).toEqual(['poll'])
    expect(slots.free('normal')).toBe(1)
  })

  it('gives all slots back when a call throws', async () => {
    const slots = new PrioritySemaphore(2)
    slots.take(1, 'normal')
    const options = { wanted: 4, endpoint: 'bulk', priority: 'normal', signal } as const
    const made = withGrantedCalls({ limiter, slots }, options, ({ each }) =>
      each([1, 2, 3, 4], (item) => (item === 2 ? Promise.reject(new Error('broken')) : settle())),
    )
    slots.release(1)
    await expect(made).rejects.toThrow('broken')
    expect(slots.free('normal')).toBe(2)
  })
})

it('an open circuit allows no call, and one call when a probe is due', () => {
  const client = { callsAllowedByKey: Number.POSITIVE_INFINITY }
  const at = (state: BreakerState, nextProbeAt: number | null, now: number) =>
    allowedByBreaker({ breaker: { state, nextProbeAt }, client }, now)
  expect(at('closed', null, 0)).toBe(Number.POSITIVE_INFINITY)
  expect(at('open', 100, 99)).toBe(0)
  expect(at('open', 100, 100)).toBe(1)
  expect(at('half_open', 100, 100)).toBe(0)
})

it('no lookup is leased for rejected keys, and one for keys that are retried', () => {
  const breaker = { state: 'closed', nextProbeAt: null } as const
  expect(allowedByBreaker({ breaker, client: { callsAllowedByKey: 0 } }, 0)).toBe(0)
  expect(allowedByBreaker({ breaker, client: { callsAllowedByKey: 1 } }, 0)).toBe(1)
})
