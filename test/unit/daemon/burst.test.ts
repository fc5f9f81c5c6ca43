import { expect, test } from 'vitest'
import { Burst } from '../../../src/daemon/burst.ts'

test('many deliveries in a short time are a burst, and only while they come', () => {
  let now = 0
  const burst = new Burst(() => now)
  for (let n = 0; n < 39; n++, now += 5) burst.came()
  expect(burst.isOn).toBe(false)
  burst.came()
  expect(burst.isOn).toBe(true)
  now += 500
  expect(burst.isOn).toBe(false)
})

test('the same number spread over seconds is none', () => {
  let now = 0
  const burst = new Burst(() => now)
  for (let n = 0; n < 100; n++, now += 50) burst.came()
  expect(burst.isOn).toBe(false)
})
