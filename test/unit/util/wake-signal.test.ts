import { expect, test } from 'vitest'
import { WakeSignal } from '../../../src/util/wake-signal.ts'

const never = new AbortController().signal
/** Longer than any test may take: who waits so long was not woken. */
const LONG_MS = 10 * 60_000

test('all who wait are woken, not only the last', async () => {
  const nudge = new WakeSignal()
  const waiting = [nudge.listen(), nudge.listen(), nudge.listen()].map((waiter) =>
    waiter.wait(LONG_MS, never),
  )
  nudge.notify()
  await expect(Promise.all(waiting)).resolves.toHaveLength(3)
})

test('one whose time is over does not take the wake-up of another with it', async () => {
  const nudge = new WakeSignal()
  const long = nudge.listen().wait(LONG_MS, never)
  await nudge.listen().wait(1, never)
  nudge.notify()
  await expect(long).resolves.toBeUndefined()
})

test('a nudge that comes while a loop works is not lost on it, though another was woken by it', async () => {
  const nudge = new WakeSignal()
  const [working, other] = [nudge.listen(), nudge.listen()]
  const waiting = other.wait(LONG_MS, never)
  nudge.notify()
  await waiting
  await working.wait(LONG_MS, never)
  await expect(working.wait(1, never)).resolves.toBeUndefined()
})

test('the signal ends every wait', async () => {
  const ending = new AbortController()
  const nudge = new WakeSignal()
  const waiting = [nudge.listen(), nudge.listen()].map((waiter) => waiter.wait(LONG_MS, ending.signal))
  ending.abort()
  await expect(Promise.all(waiting)).resolves.toHaveLength(2)
})
