import { isTouchColumn } from '../../pipeline/row-results.ts'
import type { LeftOutSource } from '../../runs/source-health.ts'
import type { RevertOutcome } from './revert-batch.ts'

/**
 * What an undo did, or would do. The counts in `changes` add up to `total`.
 * @example
 * const { changes } = await fillrate.undo(7, { dryRun: true })
 */
export interface UndoReport {
  /** The undo's own run; undoing that writes the values again. Null: nothing was written. */
  readonly run: number | null
  /** The run that was undone. */
  readonly undoes: number
  /** The undone run was an undo itself, so its values were written again. */
  readonly writes_again: boolean
  readonly dry_run: boolean
  readonly status: 'completed' | 'interrupted'
  /** Changes of the run; one is one write to one row. */
  readonly changes: {
    readonly total: number
    readonly restored: number
    /** All of their cells were changed since. */
    readonly kept: number
    /** Their row no longer exists. */
    readonly row_missing: number
    /** The database rejected the old values. */
    readonly rejected: number
    readonly undone_before: number
    /** Their source is no longer configured. */
    readonly not_configured: number
    /** Not reverted yet: the undo was interrupted, their source is broken, or other transactions had locked their rows. */
    readonly remaining: number
  }
  readonly cells: {
    readonly restored: number
    /** Restored `touch` columns. */
    readonly touched: number
    /** Changed since, so they stay. */
    readonly kept: number
  }
  readonly columns: ReadonlyArray<{
    readonly source: string
    readonly column: string
    readonly restored: number
    readonly kept: number
  }>
  /** Rows with values that stay, up to a limit. */
  readonly kept: readonly ProtectedRow[]
  /** Rows that could not be restored. */
  readonly failed: readonly UnrestoredRow[]
  /** Sources of the run that do not fit their tables: nothing of them was reverted. */
  readonly left_out: readonly LeftOutSource[]
  /** Rows picked by the run that still wait: what they get will be written after this undo. */
  readonly waiting: number
  readonly duration_ms: number
}

interface ProtectedRow {
  readonly source: string
  readonly key: string
  readonly columns: readonly string[]
  /** The run that has written them since; null: not Fillrate. */
  readonly written_by: number | null
  /** The row has other inputs than when it was written: it is about another person or company, and its values are not Fillrate's. */
  readonly inputs_changed: boolean
}

interface UnrestoredRow {
  readonly source: string
  readonly key: string
  readonly outcome: 'row_missing' | 'rejected'
  readonly reason: string | null
}

/** Maximum rows listed by name, to bound the memory of a report. */
const MAX_LISTED = 10_000

/** Sums up what becomes of a run's changes. */
export class UndoSummary {
  readonly #changes = { restored: 0, kept: 0, row_missing: 0, rejected: 0 }
  readonly #columns = new Map<string, { source: string; column: string; restored: number; kept: number }>()
  readonly #cells = { restored: 0, touched: 0, kept: 0 }
  readonly #kept: ProtectedRow[] = []
  readonly #failed: UnrestoredRow[] = []
  notConfigured = 0

  /** Changes processed. */
  get processed(): number {
    return Object.values(this.#changes).reduce((sum, n) => sum + n, this.notConfigured)
  }

  add({ source, key, outcome, reason, restored, kept, writtenBy, isOther }: RevertOutcome): void {
    this.#changes[outcome]++
    for (const column of restored) {
      if (isTouchColumn(source, column)) this.#cells.touched++
      else {
        this.#cells.restored++
        this.#column(source.name, column).restored++
      }
    }
    // Every edit moves `updated_at`: if only `touch` columns stay, no one's work is protected.
    const columns = kept.filter((column) => !isTouchColumn(source, column))
    for (const column of columns) this.#column(source.name, column).kept++
    this.#cells.kept += columns.length
    if (columns.length > 0 && this.#kept.length < MAX_LISTED)
      this.#kept.push({ source: source.name, key, columns, written_by: writtenBy, inputs_changed: isOther })
    if ((outcome === 'row_missing' || outcome === 'rejected') && this.#failed.length < MAX_LISTED)
      this.#failed.push({ source: source.name, key, outcome, reason })
  }

  report(
    end: Pick<
      UndoReport,
      'run' | 'undoes' | 'writes_again' | 'dry_run' | 'status' | 'left_out' | 'waiting'
    > & {
      readonly total: number
      readonly undoneBefore: number
      readonly durationMs: number
    },
  ): UndoReport {
    const { total, undoneBefore, durationMs, ...rest } = end
    const counts = { ...this.#changes, undone_before: undoneBefore, not_configured: this.notConfigured }
    const remaining = total - Object.values(counts).reduce((sum, n) => sum + n, 0)
    return {
      ...rest,
      changes: { total, ...counts, remaining },
      cells: { ...this.#cells },
      columns: [...this.#columns.values()],
      kept: this.#kept,
      failed: this.#failed,
      duration_ms: Math.round(durationMs),
    }
  }

  #column(source: string, column: string): { restored: number; kept: number } {
    const name = JSON.stringify([source, column])
    const counts = this.#columns.get(name) ?? { source, column, restored: 0, kept: 0 }
    this.#columns.set(name, counts)
    return counts
  }
}

/** 0 completed; 3 some values could not be restored although unchanged since; 130 interrupted. Pure. */
export function undoExitCode({ status, changes }: Pick<UndoReport, 'status' | 'changes'>): 0 | 3 | 130 {
  if (status === 'interrupted') return 130
  return changes.rejected + changes.not_configured + changes.remaining > 0 ? 3 : 0
}
