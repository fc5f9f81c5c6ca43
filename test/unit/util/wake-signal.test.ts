import { expect, test } from 'vitest'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

const never = new AbortController().signal
/** Longer than a test may take: a listener that waits this long was not woken. */
const LONG_MS = 10 * 60_000

test('wakes all listeners', async () => {
  const nudge = new WakeSignal()
  const waiting = [nudge.listen(), nudge.listen(), nudge.listen()].map((waiter) =>
    waiter.wait(LONG_MS, never),
  )
  nudge.notify()
  await expect(Promise.all(waiting)).resolves.toHaveLength(3)
})

test('a timed-out listener does not consume the notification of another', async () => {
  const nudge = new WakeSignal()
  const long = nudge.listen().wait(LONG_MS, never)
  await expect(nudge.listen().wait(1, never)).resolves.toBe(false)
  nudge.notify()
  await expect(long).resolves.toBe(true)
})

test('a notification during the work of a loop ends its next wait, even if it woke another', async () => {
  const nudge = new WakeSignal()
  const [working, other] = [nudge.listen(), nudge.listen()]
  const waiting = other.wait(LONG_MS, never)
  nudge.notify()
  await waiting
  await working.wait(LONG_MS, never)
  await expect(working.wait(1, never)).resolves.toBe(false)
})

test('an abort ends every wait', async () => {
  const ending = new AbortController()
  const nudge = new WakeSignal()
  const waiting = [nudge.listen(), nudge.listen()].map((waiter) => waiter.wait(LONG_MS, ending.signal))
  ending.abort()
  await expect(Promise.all(waiting)).resolves.toHaveLength(2)
})
