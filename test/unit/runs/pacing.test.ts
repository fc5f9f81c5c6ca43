import pino from 'pino'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { runLoop } from '../../../src/runs/loop.ts'
import { LOOKUPS_PER_TURN, startTurn } from '../../../src/runs/call-loop.ts'
import type { RunningRun } from '../../../src/store/runs.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

describe('a loop that gathers', () => {
  test('begins a tick when there is enough, or when the time is over', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const [wakeSignal, enough, stop] = [new WakeSignal(), new WakeSignal(), new AbortController()]
    let ticks = 0
    const loop = runLoop({
      name: 'test',
      log: pino({ level: 'silent' }),
      signal: stop.signal,
      wakeSignal,
      gather: { ms: 1_000, enough },
      tick: async () => ++ticks,
    })
    await vi.advanceTimersByTimeAsync(0)
    expect(ticks).toBe(1)
    wakeSignal.notify()
    await vi.advanceTimersByTimeAsync(999)
    expect(ticks).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(ticks).toBe(2)
    enough.notify()
    await vi.advanceTimersByTimeAsync(0)
    expect(ticks).toBe(3)
    stop.abort()
    await loop
  })
})

describe('the turn of a run', () => {
  const run = (id: number, trigger: RunningRun['trigger']): RunningRun => ({
    id,
    trigger,
    options: { limit: null, budget: null, where: null, route: 'sync' },
    picking: false,
    isBounded: false,
    unread: null,
    scopes: {},
  })

  test.each<[string, readonly RunningRun[], number]>([
    ['has no end while it is alone', [run(1, 'manual')], Number.POSITIVE_INFINITY],
    [
      'has none beside runs of other priorities',
      [run(1, 'schedule'), run(2, 'follow')],
      Number.POSITIVE_INFINITY,
    ],
    ['ends for another run of its priority', [run(1, 'manual'), run(2, 'manual')], LOOKUPS_PER_TURN],
  ])('%s', async (_, running, limit) => {
    const turn = startTurn(running[0] as RunningRun, async () => running)
    expect(turn.limit()).toBe(LOOKUPS_PER_TURN)
    await new Promise((resolve) => setImmediate(resolve))
    expect(turn.limit()).toBe(limit)
  })

  test('ends while it is not known who else runs', async () => {
    const turn = startTurn(run(1, 'manual'), () => Promise.reject(new Error('Postgres is away')))
    await new Promise((resolve) => setImmediate(resolve))
    expect(turn.limit()).toBe(LOOKUPS_PER_TURN)
  })
})
