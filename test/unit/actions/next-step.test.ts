import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Lookup } from '../../../src/domain/lookup.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import { decideNextStep, type RowSituation } from '../../../src/actions/explain/next-step.ts'

const now = Date.UTC(2026, 2, 1, 12)
const later = new Date(now + 3_600_000)
const settled: RowSituation = {
  exclusion: null,
  hasBlanks: true,
  lookupKind: 'email',
  isSuppressed: false,
  inputsChanged: false,
  isUndone: false,
  row: { state: 'not_found', run: 3, due_at: later },
  lookup: { state: 'not_found', not_before: null, reason: null, run: 3 },
  job: null,
  isRunAlive: false,
}
const waiting = (
  lookup: Partial<RowSituation['lookup']> | null,
  more: Partial<RowSituation> = {},
): RowSituation => ({
  ...settled,
  row: { state: 'waiting', run: 3, due_at: null },
  lookup: lookup === null ? null : { state: 'pending', not_before: null, reason: null, run: 3, ...lookup },
  ...more,
})
const what = (situation: RowSituation): string => decideNextStep(situation, now).what

describe('next step', () => {
  test('a row outside its source is left alone, whatever its state', () => {
    expect(what({ ...settled, exclusion: 'deleted' })).toMatch(/no longer exists/)
    expect(what({ ...settled, exclusion: 'where' })).toMatch(/where/)
    expect(what({ ...settled, exclusion: 'copies' })).toMatch(/one row per key/)
  })

  test('a row without blanks is not picked even if it is due', () => {
    const due = { ...settled, hasBlanks: false, row: { ...settled.row!, due_at: new Date(now) } }
    expect(what(due)).toMatch(/^nothing: each of its columns/)
  })

  test('a row that was never picked, or whose inputs have changed, is picked by the next run', () => {
    expect(what({ ...settled, row: null })).toBe('the next run picks it, and looks it up by email')
    expect(what({ ...settled, inputsChanged: true })).toMatch(/picks it, because its inputs have changed/)
    expect(what({ ...settled, row: null, lookupKind: null })).toMatch(/as invalid input$/)
    expect(what({ ...settled, row: null, isSuppressed: true })).toMatch(/erased/)
  })

  test('a row whose identifier was erased is not announced as looked up, in whatever state it is', () => {
    for (const state of ROW_STATES)
      for (const due_at of [null, later, new Date(now)])
        expect(what({ ...settled, row: { ...settled.row!, state, due_at }, isSuppressed: true })).toBe(
          'nothing: its identifier was erased and is never looked up again',
        )
  })

  test('a finished row waits for its due time, or for the user', () => {
    expect(decideNextStep(settled, now)).toEqual({
      what: expect.stringMatching(/looked up again/),
      at: later,
    })
    expect(what({ ...settled, row: { ...settled.row!, due_at: new Date(now) } })).toMatch(/because it is due/)
    const never = (state: 'rejected' | 'invalid_input' | 'unchanged', isUndone = false): string =>
      what({ ...settled, isUndone, row: { state, run: 3, due_at: null } })
    expect(never('rejected')).toMatch(/before its inputs change, or `fillrate retry`/)
    expect(never('invalid_input')).toBe('nothing before its inputs change')
    expect(never('unchanged', true)).toMatch(/retry --state undone/)
  })

  test('a waiting row says what it waits for', () => {
    expect(what(waiting({}, { isRunAlive: true }))).toBe('requested by run 3')
    expect(what(waiting({}))).toMatch(/the next run, because its own has ended/)
    expect(decideNextStep(waiting({ not_before: later, reason: '503' }), now)).toEqual({
      what: expect.stringMatching(/requested again by .* \(503\)/),
      at: later,
    })
    expect(what(waiting({ state: 'leased' }))).toMatch(/in flight/)
    const job = { state: 'submitted', deadline_at: later } as const
    expect(decideNextStep(waiting({ state: 'submitted' }, { job }), now)).toMatchObject({ at: later })
    expect(what(waiting({ state: 'found' }))).toMatch(/write-back/)
    expect(what(waiting(null))).toMatch(/picked again/)
  })

  test('every situation has a next step, and no time in the past', () => {
    const date = fc.constantFrom(null, new Date(now - 1), new Date(now), later)
    fc.assert(
      fc.property(
        fc.record({
          exclusion: fc.constantFrom(null, 'deleted', 'joins', 'where', 'copies', 'problem'),
          hasBlanks: fc.boolean(),
          lookupKind: fc.constantFrom(null, 'email'),
          isSuppressed: fc.boolean(),
          inputsChanged: fc.boolean(),
          isUndone: fc.boolean(),
          row: fc.option(
            fc.record({
              state: fc.constantFrom(...ROW_STATES),
              run: fc.constant(3),
              due_at: date,
            }),
          ),
          lookup: fc.option(
            fc.record({
              state: fc.constantFrom(...Object.values(Lookup)),
              not_before: date,
              reason: fc.constantFrom(null, 'a reason'),
              run: fc.constant(3),
            }),
          ),
          job: fc.constant(null),
          isRunAlive: fc.boolean(),
        }),
        (situation) => {
          const next = decideNextStep(situation, now)
          expect(next.what).not.toBe('')
          expect(next.at?.getTime() ?? now + 1).toBeGreaterThan(now)
        },
      ),
    )
  })
})

test('a row that is back in its source is picked again', () => {
  expect(decideNextStep({ ...settled, isBack: true }, now).what).toBe(
    'the next run picks it, because it is in the source again, and looks it up by email',
  )
})

test('a row that another program has enriched is eligible when its stamp is stale', () => {
  const freshness = { until: later, reason: 'enriched_at is less than 90 d old' }
  expect(decideNextStep({ ...settled, row: null, freshness }, now)).toEqual({
    what: 'counts as enriched, because enriched_at is less than 90 d old; eligible again',
    at: later,
  })
})
