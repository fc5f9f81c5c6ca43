import pino from 'pino'
import { expect, test, vi } from 'vitest'
import { runLoop } from '../../../src/runs/loop.ts'
import { TransactionTimeoutError } from '../../../src/store/connectivity.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

vi.mock('node:timers/promises', () => ({ setTimeout: () => Promise.resolve() }))

/** @param timeouts how many transactions take longer than Postgres allows, before each that does not */
async function loopFailing(timeouts: number): Promise<{ ticks: number; error: unknown }> {
  const stop = new AbortController()
  let ticks = 0
  const tick = async (): Promise<number> => {
    if (++ticks === 50) stop.abort()
    if (ticks % (timeouts + 1) === 0) return 1
    throw Object.assign(new Error('made on purpose'), { code: '25P04' })
  }
  const log = pino({ level: 'silent' })
  const loop = runLoop({ name: 'test', log, signal: stop.signal, wakeSignal: new WakeSignal(), tick })
  const error = await loop.catch((thrown: unknown) => thrown)
  return { ticks, error }
}

test('a loop whose transactions all take longer than Postgres allows fails, instead of waiting for ever', async () => {
  const { ticks, error } = await loopFailing(100)
  expect(error).toBeInstanceOf(TransactionTimeoutError)
  expect(ticks).toBe(10)
})

test('one that gets on now and then goes on', async () => {
  expect(await loopFailing(9)).toEqual({ ticks: 50, error: undefined })
})
