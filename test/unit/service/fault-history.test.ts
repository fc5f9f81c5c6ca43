import { describe, expect, test } from 'vitest'
import { FaultHistory } from '../../../src/service/fault-history.ts'

const lookup = (id: number, attempts = 0) => ({ id, attempts })

describe('a fault', () => {
  test("is nobody's attempt as long as the service answers no other call", () => {
    const history = new FaultHistory()
    for (let tries = 1; tries <= 4; tries++) {
      expect(history.recordFault(lookup(1), history.startCall())).toBe(true)
      expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 0, tries })
    }
  })

  test("is the input's own once another is answered, and is stored with its next one", () => {
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

  test('of an outage counts for nothing when it is over', () => {
    const history = new FaultHistory()
    for (let i = 0; i < 4; i++) history.recordFault(lookup(1), history.startCall())
    history.recordResponse(lookup(2), true)
    expect(history.recordFault(lookup(1), history.startCall())).toBe(true)
    expect(history.countAttempts(lookup(1), false)).toEqual({ attempts: 0, tries: 1 })
  })

  test('does not speak against the service where others were answered while it was on its way', () => {
    const history = new FaultHistory()
    const began = history.startCall()
    history.recordResponse(lookup(2), false)
    expect(history.recordFault(lookup(1), began)).toBe(false)
    expect(history.recordFault(lookup(3), history.startCall())).toBe(true)
  })

  test('that may have been paid for counts at once, and once', () => {
    const history = new FaultHistory()
    history.recordFault(lookup(1), history.startCall())
    expect(history.countAttempts(lookup(1), true)).toEqual({ attempts: 1, tries: 1 })
    // Nothing shows yet that it is the input's.
    expect(history.recordFault(lookup(1, 1), history.startCall())).toBe(true)
    expect(history.countAttempts(lookup(1, 1), true)).toEqual({ attempts: 2, tries: 2 })
    history.recordResponse(lookup(2), false)
    expect(history.recordFault(lookup(1, 2), history.startCall())).toBe(false)
    expect(history.countAttempts(lookup(1, 2), false)).toEqual({ attempts: 2, tries: 3 })
  })
})
