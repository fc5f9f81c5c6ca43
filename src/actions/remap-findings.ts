import { type SkippedCell, type SkippedGroup, SkippedTally } from '../domain/skipped-cell.ts'
import type { DiffRow, DryRunReport } from '../pipeline/preview.ts'
import { RandomSample } from '../pipeline/random-sample.ts'
import type { RunReport } from '../runs/report.ts'
import type { Source } from '../sources/source-model.ts'
import type { FoundRecord } from '../store/remap.ts'

/** Outcomes of the rows with a stored record. All but the last two add up to `rows`. */
interface RemapCounts extends Record<RemapOutcome, number> {
  readonly rows: number
  /** Rows to write whose earlier write was undone. */
  readonly undone: number
  /** Cells that would be written, without `touch` columns. */
  readonly cells: number
}

/** Counts, cells by column and a sample as in a dry run; and the report of the run that wrote them. */
export interface RemapReport extends DryRunReport {
  readonly dry_run: boolean
  readonly source: string
  readonly examined: RemapCounts
  /** Values that are not written under the current mapping, by column and reason. */
  readonly skipped_cells: readonly SkippedGroup[]
  /** Null: nothing was written. */
  readonly report: RunReport | null
}

/** What a stored record would change in its row. */
export interface PreviewedRemap {
  readonly row: FoundRecord
  /**
   * - `changed`: a cell would change, or only the database can tell
   * - `unchanged`: nothing would change
   * - `below_confidence`: the record's confidence is too low for the source
   * - `inputs_changed`: the next run picks it
   * - `row_missing`: no longer in the source
   */
  readonly outcome: RemapOutcome
  /** What would be written, as far as that is known; null: nothing. */
  readonly diff: DiffRow | null
  /** Values of the record that are not written, as far as that is known. */
  readonly skipped: readonly SkippedCell[]
}

export type RemapOutcome = 'changed' | 'unchanged' | 'below_confidence' | 'inputs_changed' | 'row_missing'

/** Sums up what a remap finds. */
export class RemapFindings {
  readonly source: Source
  readonly #counts = {
    rows: 0,
    changed: 0,
    unchanged: 0,
    below_confidence: 0,
    inputs_changed: 0,
    row_missing: 0,
    undone: 0,
    cells: 0,
  }
  readonly #columns: { readonly source: string; readonly column: string; written: number }[]
  readonly #sample: RandomSample<DiffRow>
  readonly #tally = new SkippedTally()

  /** @param sample maximum rows to return as a sample */
  constructor(source: Source, sample: number, random: () => number) {
    this.source = source
    this.#columns = source.outputs.map(({ column }) => ({ source: source.name, column, written: 0 }))
    this.#sample = new RandomSample<DiffRow>(sample, random)
  }

  add(previewed: readonly PreviewedRemap[]): void {
    const counts = this.#counts
    counts.rows += previewed.length
    for (const one of previewed) {
      counts[one.outcome]++
      this.#tally.add(this.source.name, one.skipped)
      if (one.outcome !== 'changed') continue
      if (one.row.undone) counts.undone++
      if (one.diff === null) continue
      counts.cells += one.diff.cells.length
      for (const cell of one.diff.cells)
        for (const count of this.#columns) if (count.column === cell.column) count.written++
      if (one.diff.cells.length > 0) this.#sample.add(one.diff)
    }
  }

  report(report: RunReport | null): RemapReport {
    return {
      dry_run: report === null,
      source: this.source.name,
      examined: this.#counts,
      skipped_cells: this.#tally.groups(),
      columns: this.#columns,
      sample: this.#sample.take(),
      report,
    }
  }
}
