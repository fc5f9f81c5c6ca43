import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BodyMemory } from '../../../src/http/body-memory.ts'

const SECOND = 1_000

/** A memory of 100 bytes with a clock of its own, and the names of the bodies that were evicted. */
function createMemory() {
  let now = 0
  const evicted: string[] = []
  const memory = new BodyMemory(100, () => now)
  return {
    evicted,
    pass: (ms: number) => (now += ms),
    open: (name: string, length: number) => memory.open(length, () => evicted.push(name)),
  }
}

test('a body reserves what has arrived of it', () => {
  const { open, evicted } = createMemory()
  for (let n = 0; n < 1_000; n++) open(`announced ${n}`, 90)
  expect(open('whole', 100).hold(100, 100)).toBe(true)
  expect(evicted).toEqual([])
})

test('a full memory is given to the senders that keep up: the latest is evicted first, whatever it lacks', () => {
  const { open, pass, evicted } = createMemory()
  open('latest', 21).hold(20, 20)
  pass(SECOND)
  open('late', 61).hold(60, 60)
  const trickle = open('a byte a second', 22)
  trickle.hold(20, 20)
  pass(2 * SECOND)
  trickle.hold(1, 20)
  expect(open('delivery', 500).hold(30, 30)).toBe(true)
  expect(evicted).toEqual(['latest', 'late'])
  expect(open('another', 500).hold(60, 60)).toBe(true)
  expect(evicted).toEqual(['latest', 'late', 'a byte a second'])
})

test('of senders that keep up, the body of which most is still to come is evicted first', () => {
  const { open, evicted } = createMemory()
  const received = open('received', 40)
  received.hold(40, 40)
  received.complete()
  const large = open('large', 90)
  large.hold(35, 35)
  open('nearly complete', 30).hold(25, 25)
  expect(open('as much to come', 90).hold(35, 35)).toBe(false)
  expect(evicted).toEqual([])
  expect(open('less to come', 70).hold(20, 20)).toBe(true)
  expect(evicted).toEqual(['large'])
  expect(large.hold(1, 1)).toBe(false)
  // Nothing is evicted where that would not be enough.
  expect(open('in vain', 62).hold(61, 61)).toBe(false)
  expect(evicted).toEqual(['large'])
  received.release()
  received.release()
  expect(open('after a release', 56).hold(55, 55)).toBe(true)
})

test('a received body is never evicted, however late', () => {
  const { open, pass, evicted } = createMemory()
  const received = open('received', 80)
  received.hold(80, 80)
  received.complete()
  pass(60 * SECOND)
  expect(open('delivery', 30).hold(30, 30)).toBe(false)
  expect(evicted).toEqual([])
})

test('whatever is sent, the memory is never exceeded, and the body that lacks least always completes', () => {
  const step = fc.record({
    length: fc.integer({ min: 2, max: 900 }),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
    wait: fc.nat(3 * SECOND),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let now = 0
      const memory = new BodyMemory(1_000, () => now)
      const inside = new Map<object, number>()
      for (const { length, part, wait } of steps) {
        const own = {}
        const place = memory.open(length, () => inside.delete(own))
        const arrived = Math.floor((length - 1) * part)
        if (place.hold(arrived, arrived)) inside.set(own, arrived)
        expect([...inside.values()].reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_000)
        now += wait
      }
      // All others lack at least one byte.
      expect(memory.open(999, () => {}).hold(999, 999)).toBe(true)
    }),
  )
})
