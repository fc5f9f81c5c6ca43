import pino from 'pino'
import { expect, test, vi } from 'vitest'
import { runLoop } from '../../../src/runs/loop.ts'
import { TransactionTimeoutError } from '../../../src/store/transaction.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

vi.mock('node:timers/promises', () => ({ setTimeout: () => Promise.resolve() }))

/** @param failed how many transactions fail, before each that does not; @param code by default they take longer than Postgres allows */
async function loopFailing(
  failed: number,
  code = '25P04',
): Promise<{ ticks: number; error: unknown; warnings: number }> {
  const stop = new AbortController()
  let ticks = 0
  const tick = async (): Promise<number> => {
    if (++ticks === 50) stop.abort()
    if (ticks % (failed + 1) === 0) return 1
    throw Object.assign(new Error('made on purpose'), { code })
  }
  let warnings = 0
  const log = pino({ level: 'warn' }, { write: () => warnings++ })
  const loop = runLoop({ name: 'test', log, signal: stop.signal, wakeSignal: new WakeSignal(), tick })
  const error = await loop.catch((thrown: unknown) => thrown)
  return { ticks, error, warnings }
}

test('a loop whose transactions all take longer than Postgres allows fails, instead of waiting for ever', async () => {
  const { ticks, error } = await loopFailing(100)
  expect(error).toBeInstanceOf(TransactionTimeoutError)
  expect(ticks).toBe(10)
})

test('one that gets on now and then goes on', async () => {
  expect(await loopFailing(9)).toEqual({ ticks: 50, error: undefined, warnings: 0 })
})

test('only conflicts that last are warned of, and once', async () => {
  expect(await loopFailing(2, '40P01')).toMatchObject({ ticks: 50, warnings: 0 })
  expect(await loopFailing(100, '40P01')).toMatchObject({ ticks: 50, warnings: 1 })
})
