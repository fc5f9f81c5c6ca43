import { expect, test } from 'vitest'
import { Slots, slotsOf } from '../../../src/pipeline/look-up/slots.ts'

const never = new AbortController().signal

test('a quarter is kept for syncs where there are any', () => {
  const slots = slotsOf(32, [{ follow: false }, { follow: true }])
  expect(slots.take(100, 'backfill')).toBe(24)
  expect(slots.take(100, 'nightly')).toBe(0)
  expect(slots.take(100, 'sync')).toBe(8)
  expect(slotsOf(32, [{ follow: false }]).take(100, 'backfill')).toBe(32)
})

test('a single slot is for everybody', () => {
  expect(new Slots(1, 1).take(1, 'backfill')).toBe(1)
})

test('who waits is served by urgency, whoever came first', async () => {
  const slots = new Slots(1)
  slots.take(1, 'backfill')
  const order: string[] = []
  const wait = async (priority: 'sync' | 'nightly' | 'backfill'): Promise<void> => {
    while (slots.take(1, priority) === 0) await slots.wait(priority, never)
    order.push(priority)
    await Promise.resolve()
    slots.give(1)
  }
  const all = [wait('backfill'), wait('nightly'), wait('sync')]
  slots.give(1)
  await Promise.all(all)
  expect(order).toEqual(['sync', 'nightly', 'backfill'])
})

test('who stops waiting leaves nothing behind', async () => {
  const slots = new Slots(1)
  slots.take(1, 'nightly')
  const stop = new AbortController()
  const waiting = slots.wait('sync', stop.signal)
  stop.abort()
  await waiting
  slots.give(1)
  expect(slots.free('backfill')).toBe(1)
})

test('a bulk call is served before the single calls of its priority, and after what is more urgent', async () => {
  const slots = new Slots(1)
  slots.take(1, 'nightly')
  const order: string[] = []
  const wait = async (priority: 'sync' | 'nightly', isBulk: boolean): Promise<void> => {
    while (slots.take(1, priority, isBulk) === 0) await slots.wait(priority, never, isBulk)
    order.push(isBulk ? `${priority} bulk` : priority)
    await Promise.resolve()
    slots.give(1)
  }
  const all = [wait('nightly', false), wait('nightly', true), wait('sync', false)]
  expect(slots.mayKeep('nightly')).toBe(false)
  slots.give(1)
  await Promise.all(all)
  expect(order).toEqual(['sync', 'nightly bulk', 'nightly'])
})
