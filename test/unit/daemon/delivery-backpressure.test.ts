import { expect, test } from 'vitest'
import { DeliveryBackpressure } from '../../../src/daemon/serve.ts'

test('many deliveries in a short time are a burst, only while they arrive', () => {
  let now = 0
  const burst = new DeliveryBackpressure(() => now)
  for (let n = 0; n < 39; n++, now += 5) burst.record()
  expect(burst.isBusy).toBe(false)
  burst.record()
  expect(burst.isBusy).toBe(true)
  now += 500
  expect(burst.isBusy).toBe(false)
})

test('the same number spread over seconds is not a burst', () => {
  let now = 0
  const burst = new DeliveryBackpressure(() => now)
  for (let n = 0; n < 100; n++, now += 50) burst.record()
  expect(burst.isBusy).toBe(false)
})
