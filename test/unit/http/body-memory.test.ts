import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BodyMemory } from '../../../src/http/body-memory.ts'

test('a full room is given to smaller bodies, the largest incomplete one first', () => {
  const evicted: string[] = []
  const room = new BodyMemory(100)
  const enter = (name: string, size: number) => room.reserve(size, () => evicted.push(name))
  const received = enter('received', 40)
  received?.complete()
  enter('large', 35)
  enter('small', 25)
  expect(enter('equal to the largest', 35)).toBeNull()
  expect(evicted).toEqual([])
  expect(enter('smaller', 20)).not.toBeNull()
  expect(evicted).toEqual(['large'])
  // What would not be enough is not given up for nothing.
  expect(enter('in vain', 30)).toBeNull()
  expect(evicted).toEqual(['large'])
  received?.release()
  received?.release()
  expect(enter('after one has left', 55)).not.toBeNull()
})

test('a body that grows finds room like one that comes, and one that was evicted grows no more', () => {
  const room = new BodyMemory(100)
  let isEvicted = false
  const first = room.reserve(60, () => {
    isEvicted = true
  })
  const second = room.reserve(10, () => {})
  expect(second?.grow(40)).toBe(true)
  expect(second?.grow(80)).toBe(false)
  expect(isEvicted).toBe(false)
  expect(second?.grow(50)).toBe(true)
  expect(isEvicted).toBe(true)
  expect(first?.grow(61)).toBe(false)
})

test('whatever comes and goes, the room is never overfull, and a body no larger than its share always fits', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(100), fc.nat(2)), { maxLength: 60 }), (steps) => {
      const room = new BodyMemory(1_000)
      const inside = new Map<object, number>()
      for (const [size, what] of steps) {
        const own = {}
        const place = room.reserve(size, () => inside.delete(own))
        if (place !== null) inside.set(own, size)
        if (place !== null && what === 1) {
          place.release()
          inside.delete(own)
        }
        expect([...inside.values()].reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(1_000)
        // With 60 at most, none of which is complete, one of 1000 / 60 displaces those that are larger.
        expect(size > 16 || place !== null).toBe(true)
      }
    }),
  )
})
