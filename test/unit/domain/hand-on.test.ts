import { describe, expect, it } from 'vitest'
import { afterEarlier, handedOnStates } from '../../../src/domain/hand-on.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'

describe('a row that goes on to the next service', () => {
  it('is one without a record; where blanks are wanted, also one with a record', () => {
    expect(handedOnStates('miss')).toEqual(['not_found', 'below_confidence', 'rejected', 'invalid_input'])
    expect(handedOnStates('blank')).toEqual([...handedOnStates('miss'), 'enriched', 'unchanged'])
  })

  it('is none that failed: it may be found by the next attempt', () => {
    for (const when of ['miss', 'blank'] as const)
      for (const state of ['failed', 'waiting', 'suppressed', 'write_rejected'] as const)
        expect(handedOnStates(when)).not.toContain(state)
  })

  it('keeps what services before have found, whatever this one adds nothing to', () => {
    const found = { onlyBlanks: true, cellsWritten: 2 }
    for (const state of ['not_found', 'below_confidence', 'rejected', 'invalid_input', 'unchanged'] as const)
      expect(afterEarlier({ state, reason: 'x' }, found).state).toBe('enriched')
    expect(afterEarlier({ state: 'not_found', reason: 'x' }, { ...found, cellsWritten: 0 })).toEqual({
      state: 'unchanged',
      reason: 'a service before has found it',
    })
  })

  it('ends as this service leaves it where none before has found it', () => {
    const outcomes = ROW_STATES.flatMap((state) => (state === 'waiting' ? [] : [{ state, reason: 'x' }]))
    const none = { onlyBlanks: false, cellsWritten: 0 }
    expect(outcomes.map((outcome) => afterEarlier(outcome, none))).toEqual(outcomes)
  })

  it('says what this service did to it', () => {
    const found = { onlyBlanks: true, cellsWritten: 2 }
    for (const state of ['enriched', 'failed', 'write_rejected', 'suppressed'] as const)
      expect(afterEarlier({ state, reason: 'x' }, found)).toEqual({ state, reason: 'x' })
  })
})
