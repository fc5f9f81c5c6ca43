import type { FailureState } from '../domain/row.ts'

/** What becomes of rows that could not be enriched by themselves, and what one can do. */
export const FAILURE_HELP: Readonly<Record<FailureState, string>> = {
  failed: 'the service gave no answer; asked again by a run from the next day on, or after `fillrate retry`',
  rejected:
    'the service does not take the question; asked again when the row changes, or after `fillrate retry`',
  write_rejected:
    'the answer is kept, and the database would not have it in its column; `fillrate retry` has it written without a call',
  invalid_input: 'not asked; correct the row, and the next run picks it',
  below_confidence:
    'answered, but less surely than minConfidence asks for; with a lower one, `fillrate remap SOURCE` writes it without a call',
}
