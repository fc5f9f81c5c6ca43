import type { AnsweredState } from './lookup.ts'
import type { NextWhen } from './mapping.ts'
import { Row, type RowOutcome, type RowState } from './row.ts'

/** What the services before this one have left of a row in the same pass. */
export interface EarlierSteps {
  /** One of them has found a record: only what it left blank is filled. */
  readonly onlyBlanks: boolean
  /** Cells that they have filled. */
  readonly cellsWritten: number
}

const NOTHING_FOUND: readonly RowState[] = [Row.notFound, Row.belowConfidence, Row.rejected, Row.invalidInput]

/**
 * The states in which a row goes on to the next service. A failed lookup is no answer: it is made again by the next pass.
 * @example
 * statesThatGoOn('miss') // ['not_found', 'below_confidence', 'rejected', 'invalid_input']
 */
export const statesThatGoOn = (when: NextWhen): readonly RowState[] =>
  when === 'miss' ? NOTHING_FOUND : [...NOTHING_FOUND, Row.enriched, Row.unchanged]

/** The state of a row that this service adds nothing to, after those before it: what they found stays found. Pure. */
export function afterEarlier(outcome: RowOutcome, earlier: EarlierSteps): RowOutcome {
  const addsNothing = outcome.state === Row.unchanged || NOTHING_FOUND.includes(outcome.state)
  if (!earlier.onlyBlanks || !addsNothing) return outcome
  const reason = outcome.state === Row.unchanged ? outcome.reason : 'a service before has found it'
  return earlier.cellsWritten > 0 ? { state: Row.enriched, reason: null } : { state: Row.unchanged, reason }
}

/**
 * When a row is due again after this service's answer: with the first of its records that is out of date, or a lookup that failed;
 * without a record with the first of its lookups that may be repeated. Each has the age of its own service. Pure.
 */
export function dueAfterEarlier(
  own: { readonly state: AnsweredState; readonly dueAt: Date | null },
  { foundDueAt, missedDueAt }: { readonly foundDueAt: Date | null; readonly missedDueAt: Date | null },
): Date | null {
  const isMiss = own.state === 'not_found' || own.state === 'rejected'
  const dates =
    foundDueAt !== null && isMiss ? [foundDueAt] : [own.dueAt, foundDueAt ?? (isMiss ? missedDueAt : null)]
  return dates.reduce((first, at) => (first === null || (at !== null && at < first) ? at : first), null)
}
