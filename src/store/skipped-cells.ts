import { type RawBuilder, sql } from 'kysely'
import type { SkippedCell } from '../domain/skipped-cell.ts'
import { jsonBatch } from './sql.ts'
import type { Connection } from './transaction.ts'

/** The skipped cells of one row. */
export interface SkippedCellsOfRow {
  readonly key: string
  readonly skipped: readonly SkippedCell[]
}

/**
 * SQL, a statement for a WITH clause: deletes the skipped cells of rows. Goes from the keys to the cells by the index
 * (`offset 0`), whatever the statistics say: most rows have none.
 */
export const deleteSkippedCellsSql = (source: string, keys: readonly string[]): RawBuilder<unknown> => sql`
  delete from fillrate.skipped_cells c
   using unnest(${[...keys]}::text[]) as k (key)
   cross join lateral (
     select ctid from fillrate.skipped_cells where source = ${source} and key = k.key offset 0) as target
   where c.ctid = target.ctid`

/**
 * Stores skipped cells with the run and lookup of their rows, in one statement; none if there are none. Those that the
 * rows had before must have been deleted.
 */
export async function insertSkippedCells(
  tx: Connection,
  source: string,
  rows: readonly SkippedCellsOfRow[],
): Promise<void> {
  const cells = rows.flatMap(({ key, skipped }) => skipped.map((cell) => ({ key, ...cell })))
  if (cells.length === 0) return
  await sql`
    insert into fillrate.skipped_cells (source, key, "column", run_id, lookup_id, reason, detail, value)
    select ${source}, v.key, v."column", r.run_id, r.lookup_id, v.reason, v.detail, v.value
      from jsonb_to_recordset(${jsonBatch(cells)}) as v
           (key text, "column" text, reason text, detail text, value jsonb)
     cross join lateral (
       select run_id, lookup_id from fillrate.rows where source = ${source} and key = v.key offset 0) as r`.execute(
    tx,
  )
}
