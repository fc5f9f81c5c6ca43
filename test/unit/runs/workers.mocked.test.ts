import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import type { SubmitResult } from '../../../src/pipeline/submit.ts'
import { RunCounters } from '../../../src/runs/counters.ts'
import { Workers } from '../../../src/runs/workers.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

/** Deliveries that wait to be settled, of 100 answers each. */
let received = 0
/** Deliveries of each batch that was settled. */
let settled: number[] = []
let onSubmitted: (result: SubmitResult) => void = () => {}
vi.mock(import('../../../src/pipeline/settle.ts'), () => ({
  settleReceived: async () => {
    const deliveries = received
    received = 0
    if (deliveries > 0) settled.push(deliveries)
    return { deliveries, answered: 100 * deliveries, quarantined: 0, orphaned: 0 } as never
  },
}))
vi.mock(import('../../../src/store/deliveries.ts'), () => ({ requeueUnread: async () => {} }))
vi.mock(import('../../../src/runs/call-loop.ts'), () => ({
  runCallLoop: async (options) => {
    onSubmitted = options.onSubmitted ?? onSubmitted
  },
}))

beforeEach(() => {
  vi.useFakeTimers()
  received = 0
  settled = []
})
afterEach(() => void vi.useRealTimers())

/** Posts three jobs, whose deliveries come 50 ms after each other. */
async function deliver({ isPicking }: { readonly isPicking: boolean }): Promise<void> {
  const ending = new AbortController()
  const deliveries = new WakeSignal()
  const deps = { log: pino({ level: 'silent' }), adapter: BUILT_IN_SERVICE } as unknown as Omit<
    CallDeps,
    'limiter'
  >
  const workers = new Workers(deps, {
    sources: [],
    calls: { ...deps, elector: {} as never, onUnauthorized: () => {} },
    signal: ending.signal,
    deliveries,
  })
  workers.attach({
    run: 1,
    sources: [],
    counters: new RunCounters(),
    isPicking: () => isPicking,
    onStop: () => {},
    onFailure: () => {},
  })
  const tasks = workers
    .tasks()
    .flatMap(({ name, start }) => (['call', 'settle'].includes(name) ? [start()] : []))
  await vi.advanceTimersByTimeAsync(0)
  onSubmitted({ submitted: 3, inputs: 300, answered: 0, calls: 3, isFull: false, stop: null })
  for (let job = 0; job < 3; job++) {
    received++
    deliveries.notify()
    await vi.advanceTimersByTimeAsync(50)
  }
  ending.abort()
  await vi.advanceTimersByTimeAsync(0)
  await Promise.all(tasks)
}

test('the last delivery that is awaited is settled with what gathered, and does not wait for others', async () => {
  await deliver({ isPicking: false })
  expect(settled).toEqual([1, 2])
})

test('while rows are picked, deliveries gather', async () => {
  await deliver({ isPicking: true })
  expect(settled).toEqual([1])
})
