import { expect, test } from 'vitest'
import { WaitLog } from '../../../src/pipeline/run/wait-log.ts'

test('calls that wait for more than ten seconds are logged once, with the reason, and when they go on', () => {
  const logged: unknown[] = []
  const waits = new WaitLog({ info: (facts: unknown, text: unknown) => void logged.push([text, facts]) })
  const rate = { state: 'learning', limit: 60, windowMs: null }
  const look = (waiting: string | null, from: number, until: number): void => {
    for (let now = from; now < until; now += 1_000) waits.look({ ...rate, waiting }, now)
  }
  look('the limit is used up', 0, 11_000)
  expect(logged).toEqual([])
  look('the limit is used up', 11_000, 60_000)
  expect(logged).toEqual([
    [
      'calls wait for longer than ten seconds',
      { reason: 'the limit is used up', state: 'learning', limit: 60, windowMs: null },
    ],
  ])
  look(null, 60_000, 62_000)
  expect(logged.slice(1)).toEqual([['calls go on', { ms: 60_000 }]])

  // Waited for in every window: not said each time, but now and then.
  look('the limit is used up', 62_000, 120_000)
  look(null, 120_000, 121_000)
  expect(logged).toHaveLength(2)
  look('the limit is used up', 700_000, 720_000)
  expect(logged).toHaveLength(3)
})
