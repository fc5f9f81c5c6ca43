import { sql, type RawBuilder } from 'kysely'
import { parseKeepingNumbers } from '../domain/json.ts'
import { Row, UNDONE, type Settled } from '../domain/row.ts'
import { batchOfRows } from './batch.ts'
import type { StoreTransaction } from './transaction.ts'

type Values = Readonly<Record<string, unknown>>

/** Locks rows of a source before their cells, as the write back does. @returns what Fillrate last wrote into each */
export async function lockWritten(
  tx: StoreTransaction,
  source: string,
  keys: readonly string[],
): Promise<Map<string, Values | null>> {
  const { rows } = await sql<{ key: string; written: string | null }>`
    select key, last_written::text as written from fillrate.rows
     where source = ${source} and key = any(${[...keys]}::text[])
     order by key for no key update`.execute(tx)
  return new Map(
    rows.map(({ key, written }) => [key, written === null ? null : (parseKeepingNumbers(written) as Values)]),
  )
}

export interface TakenBack {
  readonly key: string
  /** The columns that were restored. */
  readonly columns: readonly string[]
  /** Of these, what holds something that Fillrate had written. All others are a person's again. */
  readonly written: Values
  readonly cells: number
}

/**
 * What rows become whose write was taken back. What Fillrate claims to have written follows the cells in any case, or
 * `tracked` would take a person's value for its own. The state is changed only where the run that is taken back was
 * the last to settle the row: one that waits for an answer goes on waiting, one that a later run has settled says what
 * that run made of it.
 *
 * `due_at` stays while it is to come. Were it past, the next run would write the same values again at once.
 */
export async function takeBack(
  tx: StoreTransaction,
  source: string,
  undo: { readonly undoes: number; readonly run: number; readonly writesAgain: boolean },
  settled: Settled,
  rows: readonly TakenBack[],
): Promise<void> {
  if (rows.length === 0) return
  const written = sql`nullif((coalesce(r.last_written, '{}') - array(select jsonb_array_elements_text(v.columns))) || v.written, '{}')`
  const isLast = sql`(r.run_id = ${undo.undoes} and r.state <> ${sql.lit(Row.waiting)})`
  const settles = (value: RawBuilder<unknown>, column: string): RawBuilder<unknown> =>
    sql`${sql.id(column)} = case when ${isLast} then ${value} else ${sql.ref(`r.${column}`)} end`
  const notes = undo.writesAgain
    ? sql`nullif(r.notes - ${UNDONE}::text, '{}')`
    : sql`coalesce(r.notes, '{}') || jsonb_build_object(${UNDONE}::text, ${undo.run}::bigint)`
  await sql`
    update fillrate.rows r
       set last_written = ${written},
           ${sql.join([
             settles(sql`${settled.state}`, 'state'),
             settles(sql`${settled.reason}`, 'reason'),
             settles(notes, 'notes'),
             settles(sql`now()`, 'settled_at'),
             settles(sql`case when r.due_at > now() then r.due_at end`, 'due_at'),
             settles(undo.writesAgain ? sql`v.cells` : sql`0`, 'cells_written'),
             settles(sql`0`, 'cells_protected'),
             settles(sql`0`, 'cells_skipped'),
             settles(sql`${undo.run}`, 'run_id'),
           ])}
      from ${batchOfRows(source, rows, sql`columns jsonb, written jsonb, cells integer`)}
     where r.ctid = place.ctid`.execute(tx)
}
