import type { BulkAvailability } from '../actions/bulk-availability.ts'
import type { AcceptedSource } from '../init/verify.ts'

// What `--json` prints of types that have other names inside the program. All names in JSON are snake_case.

export const toBulkJson = ({ isPossible, reason, todo }: BulkAvailability) => ({
  possible: isPossible,
  reason,
  todo,
})

export function toProposedSourceJson({ source, coverage }: AcceptedSource) {
  const { changedAt, skippedColumns, sample, ...same } = source
  return {
    ...same,
    changed_at: changedAt,
    skipped_columns: skippedColumns,
    sample: { rows: sample.rows, identified_by: sample.identifiedBy },
    fill_rate: coverage,
  }
}
