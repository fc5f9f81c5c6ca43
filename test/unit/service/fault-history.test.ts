import { describe, expect, test } from 'vitest'
import { FaultHistory } from '../../../src/service/fault-history.ts'

const lookup = (id: number, attempts = 0) => ({ id, attempts })

describe('a fault', () => {
  test('is not attributed while the service responds to no other call', () => {
    const history = new FaultHistory()
    for (let tries = 1; tries <= 4; tries++) {
      expect(history.recordFault(lookup(1), history.startCall())).toBe(true)
      expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 0, tries })
    }
  })

  test('is attributed to the input once another call succeeds, and stored with its next fault', () => {
    const history = new FaultHistory()
    history.recordFault(lookup(1), history.startCall())
    expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 0, tries: 1 })
    history.recordResponse(lookup(2), false)
    expect(history.recordFault(lookup(1), history.startCall())).toBe(false)
    expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 1, tries: 2 })
    history.recordResponse(lookup(2), false)
    history.recordFault(lookup(1, 1), history.startCall())
    expect(history.countAttempts(lookup(1, 1), false)).toEqual({ attempts: 2, tries: 3 })
  })

  test('during an outage is attributed to no input', () => {
    const history = new FaultHistory()
    for (let i = 0; i < 4; i++) history.recordFault(lookup(1), history.startCall())
    history.recordResponse(lookup(2), true)
    expect(history.recordFault(lookup(1), history.startCall())).toBe(true)
    expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 0, tries: 1 })
  })

  test('does not count against the service if others succeeded while it was in flight', () => {
    const history = new FaultHistory()
    const began = history.startCall()
    history.recordResponse(lookup(2), false)
    expect(history.recordFault(lookup(1), began)).toBe(false)
    expect(history.recordFault(lookup(3), history.startCall())).toBe(true)
  })

  test('that may have been billed counts at once, and once', () => {
    const history = new FaultHistory()
    history.recordFault(lookup(1), history.startCall())
    expect(history.countAttempts(lookup(1), true)).toEqual({ attempts: 1, tries: 1 })
    // No evidence yet that it is the input's fault.
    expect(history.recordFault(lookup(1, 1), history.startCall())).toBe(true)
    expect(history.countAttempts(lookup(1, 1), true)).toEqual({ attempts: 2, tries: 2 })
    history.recordResponse(lookup(2), false)
    expect(history.recordFault(lookup(1, 2), history.startCall())).toBe(false)
    expect(history.countAttempts(lookup(1, 2), false)).toEqual({ attempts: 2, tries: 3 })
  })
})

test('an input that is always refused is at fault each time that others were answered, also as the last that is left', () => {
  const history = new FaultHistory()
  expect([1, 1].map((id) => history.judgeRefusal(lookup(id)))).toEqual(['limit', 'again'])
  for (const id of [2, 3, 4]) history.recordResponse(lookup(id), false)
  expect([1, 1, 1, 1].map((id) => history.judgeRefusal(lookup(id)))).toEqual([
    'input',
    'input',
    'input',
    'again',
  ])
})
