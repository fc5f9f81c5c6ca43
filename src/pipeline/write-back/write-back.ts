import type { Source } from '../../sources/source.ts'
import { writeBatch } from '../../sources/write.ts'
import * as changes from '../../store/changes.ts'
import * as rows from '../../store/rows.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { close, sift } from './close.ts'

/** Rows of one tick: one UPDATE of the source. */
const ROWS_A_TICK = 1_000

export interface WriteBackResult {
  /** Rows closed, or sent back to be picked again. */
  readonly rows: number
  readonly enriched: number
  readonly cells: number
}

/**
 * Writes answered rows of one source: the source's cells, the changes and the rows' states in one transaction, so
 * that a crash leaves all of it or nothing. Runs again by itself when it meets another transaction.
 */
export async function tick(
  deps: Pick<Deps, 'db' | 'rules' | 'meter'>,
  source: Source,
): Promise<WriteBackResult> {
  const began = performance.now()
  const did = await writeBatchOf(deps, source)
  if (did.rows > 0) deps.meter?.wroteBack(source.name, { ms: performance.now() - began, cells: did.cells })
  return did
}

function writeBatchOf(deps: Pick<Deps, 'db' | 'rules'>, source: Source): Promise<WriteBackResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const claimed = await rows.claimAnswered(tx, source.name, ROWS_A_TICK)
      if (claimed.length === 0) return { rows: 0, enriched: 0, cells: 0 }
      const { settled, fitted } = sift(source, claimed)
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

/** What Fillrate had written before into the columns that it has written now; null for nothing. */
function claimsIn(
  written: Record<string, unknown> | null,
  after: Record<string, unknown>,
): Record<string, unknown> | null {
  const claims = Object.entries(written ?? {}).filter(([column]) => Object.hasOwn(after, column))
  return claims.length > 0 ? Object.fromEntries(claims) : null
}
