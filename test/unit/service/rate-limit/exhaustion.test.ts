import { expect, test } from 'vitest'
import { ExhaustionRecord } from '../../../../src/service/rate-limit/exhaustion.ts'

const END = 2_000

/** A window with `free` calls left, of 10 calls in 2 s. */
const model = (free: number) => ({
  limit: 10,
  windowMs: 2_000,
  remaining: () => free,
  exhaustedUntil: () => END,
})

function noting(free: number) {
  const put: { done: () => void; fail: (error: Error) => void }[] = []
  let granted = 0
  const note = new ExhaustionRecord(
    model(free),
    () => new Promise((done, fail) => put.push({ done, fail })),
    () => granted++,
  )
  return { note, put, granted: () => granted }
}

test('nothing is persisted while much is left', () => {
  const { note, put } = noting(10)
  expect(note.grantable(2, 0)).toBe(2)
  expect(put).toHaveLength(0)
})

test('the last free call waits until the exhaustion is persisted, and for nothing after that', async () => {
  const { note, put, granted } = noting(4)
  expect(note.grantable(4, 0)).toBe(3)
  expect(note.grantable(4, 1)).toBe(3)
  expect(put).toHaveLength(1)
  expect(note.until).toBeGreaterThan(END)
  put[0]?.done()
  await expect.poll(granted).toBe(1)
  expect(note.grantable(4, 5)).toBe(4)
})

test('persisting is retried when it fails', async () => {
  const { note, put, granted } = noting(1)
  expect(note.grantable(1, 0)).toBe(0)
  put[0]?.fail(new Error('Postgres is away'))
  await expect.poll(granted).toBe(1)
  expect(note.grantable(1, 10)).toBe(0)
  expect(put).toHaveLength(2)
})

test('a call that tests whether anything is left does not wait', () => {
  const { note } = noting(0)
  expect(note.grantable(1, 0)).toBe(1)
})

test('without a place to persist it, nothing waits', () => {
  const note = new ExhaustionRecord(model(1), null, () => {})
  expect(note.grantable(1, 0)).toBe(1)
})
