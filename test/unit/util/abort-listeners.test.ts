import { getEventListeners } from 'node:events'
import { expect, test, vi } from 'vitest'
import { addAbortListener, removeAbortListener } from '../../../src/util/abort-listeners.ts'

const countListeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

test('everything that waits for a signal runs once when it aborts, through one listener', () => {
  const controller = new AbortController()
  const [first, second] = [vi.fn<() => void>(), vi.fn<() => void>()]
  addAbortListener(controller.signal, first)
  addAbortListener(controller.signal, second)
  expect(countListeners(controller.signal)).toBe(1)
  controller.abort()
  expect(first).toHaveBeenCalledTimes(1)
  expect(second).toHaveBeenCalledTimes(1)
})

test('what was removed does not run, and the last one takes the listener with it', () => {
  const controller = new AbortController()
  const [first, second] = [vi.fn<() => void>(), vi.fn<() => void>()]
  addAbortListener(controller.signal, first)
  addAbortListener(controller.signal, second)
  removeAbortListener(controller.signal, first)
  expect(countListeners(controller.signal)).toBe(1)
  removeAbortListener(controller.signal, second)
  expect(countListeners(controller.signal)).toBe(0)
  controller.abort()
  expect(first).not.toHaveBeenCalled()
  expect(second).not.toHaveBeenCalled()
})

test('what is removed while the others run does not run', () => {
  const controller = new AbortController()
  const second = vi.fn<() => void>()
  addAbortListener(controller.signal, () => removeAbortListener(controller.signal, second))
  addAbortListener(controller.signal, second)
  controller.abort()
  expect(second).not.toHaveBeenCalled()
})

test('a signal that combines others aborts with one of them', () => {
  const controller = new AbortController()
  const act = vi.fn<() => void>()
  addAbortListener(AbortSignal.any([controller.signal, new AbortController().signal]), act)
  controller.abort()
  expect(act).toHaveBeenCalledTimes(1)
})
