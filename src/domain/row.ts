import type { AnsweredState } from './lookup.ts'

/** `waiting` until its lookup is answered and the answer written; then one of the others, with a reason. */
export const Row = {
  waiting: 'waiting',
  enriched: 'enriched',
  unchanged: 'unchanged',
  notFound: 'not_found',
  belowConfidence: 'below_confidence',
  invalidInput: 'invalid_input',
  rejected: 'rejected',
  suppressed: 'suppressed',
  writeRejected: 'write_rejected',
  failed: 'failed',
} as const
export type RowState = (typeof Row)[keyof typeof Row]

export const ROW_STATES = Object.values(Row)

/** Some rows failed: what exit code 3 and `fillrate failures` are about. Nobody can repair a miss. */
export const FAILED_ROW_STATES = ['rejected', 'write_rejected', 'failed'] as const satisfies RowState[]

/** States of rows that could not be enriched, those first that most want somebody to act. A plain miss is none. */
export const FAILURE_STATES = [
  'failed',
  'rejected',
  'write_rejected',
  'invalid_input',
  'below_confidence',
] as const satisfies RowState[]
export type FailureState = (typeof FAILURE_STATES)[number]

/** In the notes of a row: the run that has taken its write back. */
export const UNDONE_NOTE = 'undone'

/** What can be tried again: rows that failed, and rows whose write an undo has taken back. */
export const RETRY_STATES = [...FAILED_ROW_STATES, UNDONE_NOTE] as const
export type RetryState = (typeof RETRY_STATES)[number]

export interface RowOutcome {
  readonly state: Exclude<RowState, 'waiting'>
  readonly reason: string | null
}

/**
 * What an answer makes of a row before anything is written: null when there is a record to write. In a cascade a row
 * waits on after a miss, for its next identifier.
 */
export function afterAnswer(
  lookup: {
    readonly state: AnsweredState
    readonly reason: string | null
    readonly confidence: number | null
  },
  minConfidence: number,
  cascades = false,
): RowOutcome | { readonly state: 'waiting'; readonly reason: string } | null {
  switch (lookup.state) {
    case 'not_found':
      return cascades
        ? { state: 'waiting', reason: 'no match: its next identifier is asked' }
        : { state: 'not_found', reason: 'the service found no match' }
    case 'rejected':
      return { state: 'rejected', reason: lookup.reason }
    case 'failed':
      return { state: 'failed', reason: lookup.reason }
    case 'found':
      return lookup.confidence !== null && lookup.confidence < minConfidence
        ? { state: 'below_confidence', reason: `confidence ${lookup.confidence} is below ${minConfidence}` }
        : null
  }
}

/** How a write to the source ended, as the statement itself reported it. */
export type WriteOutcome = 'written' | 'unchanged' | 'inputs_changed' | 'row_missing' | 'rejected' | 'locked'

/** What a write makes of a row: null when it waits on, because it was locked, or its inputs changed meanwhile. */
export function afterWrite(outcome: WriteOutcome, reason: string | null): RowOutcome | null {
  switch (outcome) {
    case 'written':
      return { state: 'enriched', reason }
    case 'unchanged':
      return { state: 'unchanged', reason: reason ?? 'nothing to fill' }
    case 'row_missing':
      return { state: 'write_rejected', reason: reason ?? 'the row is no longer in the source' }
    case 'rejected':
      return { state: 'write_rejected', reason: reason ?? 'refused by the database' }
    case 'inputs_changed':
    case 'locked':
      return null
  }
}

/**
 * What a row becomes whose write was taken back, or whose write was taken back and is now written again. Settled, so
 * that the next run does not write the same values a minute later.
 */
export function afterUndo(undo: {
  /** The run whose writes are taken back, and the run that takes them back. */
  readonly undoes: number
  readonly run: number
  readonly writesAgain: boolean
}): RowOutcome {
  return undo.writesAgain
    ? { state: 'enriched', reason: `written again by run ${undo.run}, which took back run ${undo.undoes}` }
    : { state: 'unchanged', reason: `undone by run ${undo.run}, which took back run ${undo.undoes}` }
}
