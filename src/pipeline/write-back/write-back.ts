import { cascades } from '../../domain/identifiers/kind.ts'
import { afterAnswer, afterWrite, Row } from '../../domain/row.ts'
import { fitRecord } from '../../sources/fit/record.ts'
import type { Source } from '../../sources/source.ts'
import { writeBatch, type WriteResult, type WriteRow } from '../../sources/write.ts'
import * as changes from '../../store/changes.ts'
import * as rows from '../../store/rows.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'

/** Rows of one tick: one UPDATE of the source. */
const ROWS_A_TICK = 500

export interface WriteBackResult {
  /** Rows closed, or sent back to be picked again. */
  readonly rows: number
  readonly enriched: number
  readonly cells: number
}

interface Fitted {
  readonly row: rows.AnsweredRow
  readonly write: WriteRow
  readonly skipped: readonly { readonly column: string; readonly reason: string }[]
}

/**
 * Writes answered rows of one source: the source's cells, the changes and the rows' states in one transaction, so
 * that a crash leaves all of it or nothing. Runs again by itself when it meets another transaction.
 */
export function tick(deps: Pick<Deps, 'db' | 'rules'>, source: Source): Promise<WriteBackResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const claimed = await rows.claimAnswered(tx, source.name, ROWS_A_TICK)
      if (claimed.length === 0) return { rows: 0, enriched: 0, cells: 0 }
      const settled: rows.SettledRow[] = []
      const fitted: Fitted[] = []
      for (const row of claimed) {
        const answer = afterAnswer(row, source.mapping.minConfidence, cascades(source.mapping))
        if (answer === null) fitted.push(fit(source, row))
        else if (answer.state === Row.waiting)
          settled.push({ ...unwritten(row), ...answer, nextAt: null, missed: true })
        else settled.push({ ...unwritten(row), ...answer })
      }
      const outcomes = new Map(
        (
          await writeBatch(
            tx,
            source,
            fitted.map((one) => one.write),
          )
        ).map((result) => [result.key, result]),
      )
      const written: changes.NewChange[] = []
      for (const one of fitted) {
        const result = outcomes.get(one.row.key)
        if (!result) throw new Error(`the write of source ${source.name} told nothing of one of its rows`)
        settled.push(close(one, result))
        if (result.outcome === 'written' && result.before && result.after)
          written.push({
            run: one.row.run,
            key: one.row.key,
            lookup: one.row.lookup,
            before: result.before,
            after: result.after,
            writtenBefore: claimsIn(one.row.written, result.after),
          })
      }
      await changes.insert(tx, source.name, written)
      await rows.settle(tx, source.name, settled)
      await rows.clearWritten(
        tx,
        claimed.map((row) => row.lookup),
      )
      return {
        rows: settled.length,
        enriched: written.length,
        cells: settled.reduce((sum, row) => sum + row.cells.written, 0),
      }
    },
    deps.rules.sourceTimeoutMs,
  )
}

function fit(source: Source, row: rows.AnsweredRow): Fitted {
  const { values, skipped } = fitRecord(source, row.record, row.confidence)
  const { key, inputHash, written, confidence } = row
  return { row, skipped, write: { key, inputHash, values, written, confidence } }
}

const NO_CELLS: rows.Cells = { written: 0, kept: 0, conflicts: 0 }

const unwritten = (row: rows.AnsweredRow) => ({
  key: row.key,
  written: null,
  notes: null,
  nextAt: row.dueAt,
  cells: NO_CELLS,
})

function close({ row, write, skipped }: Fitted, result: WriteResult): rows.SettledRow {
  // What the record lacks or the mapping leaves out is no conflict; what did not fit the column is.
  const misfits = skipped.filter((cell) => !EXPECTED.has(cell.reason))
  const settled = afterWrite(result.outcome, reasonOf(result, write, misfits))
  if (settled === null)
    return {
      ...unwritten(row),
      state: Row.waiting,
      reason: 'its inputs changed meanwhile: picked again',
      nextAt: null,
    }
  const after = result.outcome === 'written' ? outputsIn(result.after, write) : null
  const rejected = result.outcome === 'rejected' ? Object.keys(write.values).length : 0
  return {
    ...unwritten(row),
    ...settled,
    written: after,
    notes: skipped.length > 0 ? { cells: skipped } : null,
    cells: {
      written: after ? Object.keys(after).length : 0,
      kept: result.kept,
      conflicts: misfits.length + rejected,
    },
  }
}

const EXPECTED = new Set(['absent', 'below_confidence', 'unmapped', 'group_incomplete'])

function reasonOf(result: WriteResult, write: WriteRow, misfits: Fitted['skipped']): string | null {
  if (result.reason !== null) return result.reason
  if (misfits.length > 0) return misfits.map((cell) => `${cell.column}: ${cell.reason}`).join('; ')
  if (result.outcome !== 'unchanged') return null
  if (Object.keys(write.values).length === 0) return 'the record holds nothing for its columns'
  return result.kept > 0 ? 'its columns hold values already' : null
}

/** Without the columns of `touch`, which are no outputs. */
function outputsIn(after: Record<string, unknown> | null, write: WriteRow): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(after ?? {}).filter(([column]) => Object.hasOwn(write.values, column)),
  )
}

/** What Fillrate had written before into the columns that it has written now; null for nothing. */
function claimsIn(
  written: Record<string, unknown> | null,
  after: Record<string, unknown>,
): Record<string, unknown> | null {
  const claims = Object.entries(written ?? {}).filter(([column]) => Object.hasOwn(after, column))
  return claims.length > 0 ? Object.fromEntries(claims) : null
}
