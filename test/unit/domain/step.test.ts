import { describe, expect, it } from 'vitest'
import { afterSteps, dueAfterSteps, statesThatGoOn, ROW_STATES } from '../../../src/domain/row.ts'

describe('a row that goes on to the next service', () => {
  it('is one without a record; where blanks are wanted, also one with a record', () => {
    expect(statesThatGoOn('miss')).toEqual(['not_found', 'below_confidence', 'invalid_input', 'rejected'])
    expect(statesThatGoOn('blank')).toEqual([...statesThatGoOn('miss'), 'enriched', 'unchanged'])
  })

  it('is none that failed: it may be found by the next attempt', () => {
    for (const when of ['miss', 'blank'] as const)
      for (const state of ['failed', 'waiting', 'suppressed', 'write_rejected'] as const)
        expect(statesThatGoOn(when)).not.toContain(state)
  })

  it('keeps what services before have found, whatever this one adds nothing to', () => {
    const found = { onlyBlanks: true, cellsWritten: 2 }
    for (const state of ['not_found', 'below_confidence', 'rejected', 'invalid_input', 'unchanged'] as const)
      expect(afterSteps({ state, reason: 'x' }, found).state).toBe('enriched')
    expect(afterSteps({ state: 'not_found', reason: 'x' }, { ...found, cellsWritten: 0 })).toEqual({
      state: 'unchanged',
      reason: 'a service before has found it',
    })
  })

  it('ends as this service leaves it where none before has found it', () => {
    const outcomes = ROW_STATES.flatMap((state) => (state === 'waiting' ? [] : [{ state, reason: 'x' }]))
    const none = { onlyBlanks: false, cellsWritten: 0 }
    expect(outcomes.map((outcome) => afterSteps(outcome, none))).toEqual(outcomes)
  })

  it('says what this service did to it', () => {
    const found = { onlyBlanks: true, cellsWritten: 2 }
    for (const state of ['enriched', 'failed', 'write_rejected', 'suppressed'] as const)
      expect(afterSteps({ state, reason: 'x' }, found)).toEqual({ state, reason: 'x' })
  })
})

describe('when a row is due that several services have answered', () => {
  const [soon, later, last] = [30, 90, 180].map((days) => new Date(days * 86_400_000)) as [Date, Date, Date]
  const none = { foundDueAt: null, missedDueAt: null }

  it('is when the first of its records is out of date, whatever was not found', () => {
    expect(dueAfterSteps({ state: 'found', dueAt: last }, { foundDueAt: later, missedDueAt: soon })).toBe(
      later,
    )
    expect(dueAfterSteps({ state: 'found', dueAt: last }, { ...none, missedDueAt: soon })).toBe(last)
    expect(dueAfterSteps({ state: 'not_found', dueAt: soon }, { ...none, foundDueAt: later })).toBe(later)
    expect(dueAfterSteps({ state: 'rejected', dueAt: null }, { ...none, foundDueAt: later })).toBe(later)
  })

  it('is when the first of its lookups may be repeated, if none has found it', () => {
    expect(dueAfterSteps({ state: 'not_found', dueAt: later }, { ...none, missedDueAt: soon })).toBe(soon)
    expect(dueAfterSteps({ state: 'rejected', dueAt: null }, { ...none, missedDueAt: soon })).toBe(soon)
    expect(dueAfterSteps({ state: 'rejected', dueAt: null }, none)).toBe(null)
  })

  it('is the next day if a lookup has failed, whatever was found before', () => {
    expect(dueAfterSteps({ state: 'failed', dueAt: soon }, { foundDueAt: later, missedDueAt: null })).toBe(
      soon,
    )
    expect(dueAfterSteps({ state: 'failed', dueAt: soon }, none)).toBe(soon)
  })
})
