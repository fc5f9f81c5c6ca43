import { expect, test } from 'vitest'
import { PrioritySemaphore, createSlots } from '../../../src/pipeline/look-up/slots.ts'

const never = new AbortController().signal

test('a quarter is reserved for live sync if any source uses it', () => {
  const slots = createSlots(32, [{ follow: false }, { follow: true }])
  expect(slots.take(100, 'low')).toBe(24)
  expect(slots.take(100, 'normal')).toBe(0)
  expect(slots.take(100, 'urgent')).toBe(8)
  expect(createSlots(32, [{ follow: false }]).take(100, 'low')).toBe(32)
})

test('a single slot is never reserved', () => {
  expect(new PrioritySemaphore(1, 1).take(1, 'low')).toBe(1)
})

test('an aborted waiter leaves nothing behind', async () => {
  const slots = new PrioritySemaphore(1)
  slots.take(1, 'normal')
  const stop = new AbortController()
  const waiting = slots.wait('urgent', stop.signal)
  stop.abort()
  await waiting
  slots.release(1)
  expect(slots.free('low')).toBe(1)
})

test('waiters are served by urgency, not by arrival, and a bulk call before the single calls of its priority', async () => {
  const slots = new PrioritySemaphore(1)
  slots.take(1, 'normal')
  const order: string[] = []
  const wait = async (priority: 'urgent' | 'normal' | 'low', isBulk = false): Promise<void> => {
    while (slots.take(1, priority, isBulk) === 0) await slots.wait(priority, never, isBulk)
    order.push(isBulk ? `${priority} bulk` : priority)
    await Promise.resolve()
    slots.release(1)
  }
  const all = [wait('low'), wait('normal'), wait('normal', true), wait('urgent')]
  expect(slots.mayContinue('normal')).toBe(false)
  slots.release(1)
  await Promise.all(all)
  expect(order).toEqual(['urgent', 'normal bulk', 'normal', 'low'])
})

test('an answer frees its slot at once, while no more answers than slots wait to be stored', () => {
  const slots = new PrioritySemaphore(2)
  slots.take(2, 'normal')
  const stored = [slots.onAnswer(10), slots.onAnswer(10)]
  expect(slots.take(2, 'normal')).toBe(2)
  stored.push(slots.onAnswer(10))
  expect(slots.free('normal')).toBe(0)
  stored[2]?.()
  expect(slots.take(1, 'normal')).toBe(1)
  stored[0]?.()
  slots.onAnswer(10)
  expect(slots.free('normal')).toBe(1)
})

test('answers that wait to be stored are bounded by their bytes', () => {
  const slots = new PrioritySemaphore(3)
  slots.take(3, 'normal')
  const stored = slots.onAnswer(8 * 1024 * 1024)
  slots.onAnswer(1)
  expect(slots.free('normal')).toBe(1)
  stored()
  slots.onAnswer(1)
  expect(slots.free('normal')).toBe(2)
})
