import type { AnsweredState } from './lookup.ts'
import type { NextWhen } from './mapping.ts'

/** `waiting` until its lookup has a result and the result is written; then one of the others, with a reason. */
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

/**
 * What is true of the rows in a state:
 * - `applied`: their record is in the table as far as it may be, so that `remap` has nothing to write where no cell changes
 * - `miss`: the service has nothing for them, so that they go on to the next one
 * - `no_record`: their lookup has ended without a record, so that one that comes late makes them due
 */
type RowFact = 'applied' | 'miss' | 'no_record'

interface RowStateFacts {
  /** What a report says of the rows. */
  readonly meaning: string
  readonly facts: readonly RowFact[]
}

export const ROW_STATE_FACTS: Readonly<Record<RowState, RowStateFacts>> = {
  waiting: {
    meaning: 'rows picked, and without a result yet',
    facts: [],
  },
  enriched: {
    meaning: 'rows with at least one written cell',
    facts: ['applied'],
  },
  unchanged: {
    meaning: 'rows with a record that had nothing to write',
    facts: ['applied'],
  },
  not_found: {
    meaning: 'rows that the service knows nothing about',
    facts: ['miss', 'no_record'],
  },
  below_confidence: {
    meaning: 'rows whose record is below `minConfidence`',
    facts: ['miss'],
  },
  invalid_input: {
    meaning: 'rows without a usable input',
    facts: ['miss'],
  },
  rejected: {
    meaning: 'rows whose input the service rejects',
    facts: ['miss', 'no_record'],
  },
  suppressed: {
    meaning: 'rows about an erased person or company: never looked up',
    facts: [],
  },
  write_rejected: {
    meaning: 'rows that the database does not let Fillrate write',
    facts: [],
  },
  failed: {
    meaning: 'rows whose lookup failed at every attempt',
    facts: ['no_record'],
  },
}

const statesWith = (fact: RowFact): readonly RowState[] =>
  ROW_STATES.filter((state) => ROW_STATE_FACTS[state].facts.includes(fact))

/** The states of rows whose lookup has ended without a record. */
export const WITHOUT_RECORD_STATES = statesWith('no_record')

/** States of rows that could not be enriched, the most actionable first. A miss is not one. */
export const FAILURE_STATES = [
  'failed',
  'rejected',
  'write_rejected',
  'invalid_input',
  'below_confidence',
] as const satisfies RowState[]
export type FailureState = (typeof FAILURE_STATES)[number]

/** Failures that count for exit code 3, and are retried. */
export const FAILED_ROW_STATES = ['rejected', 'write_rejected', 'failed'] as const satisfies FailureState[]

/** Key in a row's notes: the run that has undone its write. */
export const UNDONE_NOTE = 'undone'

/** Key in a row's notes: it was deleted from its table, and inserted again with the key. */
export const RETURNED_NOTE = 'returned'

/**
 * What Fillrate wrote for earlier inputs of a row: by column, the hash of these inputs and the value. `isTyped`: a record was
 * written into the row of another since, so the same value in it is a user's, until the row has these inputs again.
 */
export type EarlierWrites = Readonly<
  Record<string, readonly [hash: string, value: unknown, isTyped?: boolean]>
>

/** The values of `EarlierWrites` that may still be Fillrate's, by column; null: none. */
export function toEarlierValues(earlier: EarlierWrites | null): Readonly<Record<string, unknown>> | null {
  const values = Object.entries(earlier ?? {}).flatMap(([column, [, value, isTyped]]) =>
    isTyped === true ? [] : [[column, value] as const],
  )
  return values.length === 0 ? null : Object.fromEntries(values)
}

/** What can be retried: failed rows, rows whose write was undone, and rows whose written cells are all blank again. */
export const RETRY_STATES = [...FAILED_ROW_STATES, UNDONE_NOTE, 'emptied'] as const
export type RetryState = (typeof RETRY_STATES)[number]

/** A final state of a row. */
export interface RowOutcome {
  readonly state: Exclude<RowState, 'waiting'>
  readonly reason: string | null
}

/**
 * The state of a row after its lookup, before anything is written; null if there is a record to write. In a cascade a
 * row keeps waiting after a miss, for its next identifier.
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
        ? { state: 'waiting', reason: 'no match: trying the next identifier' }
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

/** The result of a write to the source, as reported by the statement itself. */
type WriteOutcome = 'written' | 'unchanged' | 'inputs_changed' | 'row_missing' | 'rejected' | 'locked'

/** Reason of a row that was deleted, or left its source, before it was written. */
export const ROW_MISSING_REASON = 'the row is no longer in the source'

/** The state of a row after a write; null if it keeps waiting, because it was locked or its inputs changed. */
export function afterWrite(outcome: WriteOutcome, reason: string | null): RowOutcome | null {
  switch (outcome) {
    case 'written':
      return { state: 'enriched', reason }
    case 'unchanged':
      return { state: 'unchanged', reason: reason ?? 'nothing to fill' }
    // No failure: a user or another program has changed or deleted the row. Its record is stored.
    case 'row_missing':
      return { state: 'unchanged', reason: reason ?? ROW_MISSING_REASON }
    case 'rejected':
      return { state: 'write_rejected', reason: reason ?? 'rejected by the database' }
    case 'inputs_changed':
    case 'locked':
      return null
  }
}

/** An undo that writes, as a run of its own. */
export interface UndoContext {
  readonly run: number
  /** The run that it undoes. */
  readonly undoes: number
  /** That is an undo itself: its values are written again. */
  readonly writesAgain: boolean
}

/**
 * The state of a row after an undo, or after undoing an undo. Final, so that the next run does not write the same values
 * again a minute later.
 */
export function afterUndo({ run, undoes, writesAgain }: UndoContext): RowOutcome {
  const by = `by run ${run}, which undid run ${undoes}`
  return writesAgain
    ? { state: 'enriched', reason: `written again ${by}` }
    : { state: 'unchanged', reason: `undone ${by}` }
}

/** What happens next to rows that could not be enriched, and what the user can do. */
export const FAILURE_ADVICE: Readonly<Record<FailureState, string>> = {
  failed:
    'no usable response from the service; looked up again by a run from the next day on, or after `fillrate retry`',
  rejected: 'rejected by the service; looked up again when the row changes, or after `fillrate retry`',
  write_rejected:
    'stored, but the database rejected the value; `fillrate retry` writes it again without a call',
  invalid_input: 'not requested; correct the row, and the next run picks it',
  below_confidence:
    'found, but with less confidence than minConfidence; with a lower one, `fillrate remap SOURCE` writes it without a call',
}

/** A state of a row, run, job or lookup in words: `in_doubt` as `in doubt`. The same word in lists, reports and pages. */
export const formatState = (state: string): string => state.replaceAll('_', ' ')

/** What to do about sources that left the configuration. */
export const RETIRED_ADVICE =
  'no longer in the configuration: `fillrate source rename OLD NEW` if the source has another name now, ' +
  'else `fillrate follow remove NAME` removes its triggers, and its waiting rows end after seven days'

/** What the services before this one have left of a row in the same pass. */
export interface StepsBefore {
  /** One of them has found a record: only what it left blank is filled. */
  readonly onlyBlanks: boolean
  /** Cells that they have filled. */
  readonly cellsWritten: number
}

const NOTHING_FOUND = statesWith('miss')

/**
 * The states in which a row goes on to the next service. A failed lookup is no answer: it is made again by the next pass.
 * @example
 * statesThatGoOn('miss') // ['not_found', 'below_confidence', 'invalid_input', 'rejected']
 */
export const statesThatGoOn = (when: NextWhen): readonly RowState[] =>
  when === 'miss' ? NOTHING_FOUND : [...NOTHING_FOUND, Row.enriched, Row.unchanged]

/** The state of a row that this service adds nothing to, after those before it: what they found stays found. Pure. */
export function afterSteps(outcome: RowOutcome, before: StepsBefore): RowOutcome {
  const addsNothing = outcome.state === Row.unchanged || NOTHING_FOUND.includes(outcome.state)
  if (!before.onlyBlanks || !addsNothing) return outcome
  const reason = outcome.state === Row.unchanged ? outcome.reason : 'a service before has found it'
  return before.cellsWritten > 0 ? { state: Row.enriched, reason: null } : { state: Row.unchanged, reason }
}

/**
 * When a row is due again after this service's answer: with the first of its records that is out of date, or a lookup that failed;
 * without a record with the first of its lookups that may be repeated. Each has the age of its own service. Pure.
 */
export function dueAfterSteps(
  answer: { readonly state: AnsweredState; readonly dueAt: Date | null },
  { foundDueAt, missedDueAt }: { readonly foundDueAt: Date | null; readonly missedDueAt: Date | null },
): Date | null {
  const isMiss = answer.state === 'not_found' || answer.state === 'rejected'
  const dates =
    foundDueAt !== null && isMiss ? [foundDueAt] : [answer.dueAt, foundDueAt ?? (isMiss ? missedDueAt : null)]
  return dates.reduce((first, at) => (first === null || (at !== null && at < first) ? at : first), null)
}
