import { parseExactJson } from '../../domain/json.ts'
import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { cellTextSql, readCellText, valueTextSql } from '../cell.ts'
import { wideCast } from '../column-type.ts'
import { keyMatchesSql } from '../key.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { batchLengthSql, batchSql } from './batch.ts'
import { listParents } from './json-cells.ts'
import { type RowUpdate, setRolePathSql } from './row-update.ts'

/** A cell that the database did not take. `value`: what its expression gave; without it, the record's value. */
export type RefusedCell = Omit<SkippedCell, 'value'> & { readonly value?: unknown }

/**
 * What became of a row. `repeated`: several rows may be meant. `changed`: its inputs are not those that it was to be written
 * for. `prevented`: a trigger left it as it was. `left`: it exists, and no longer belongs to the source. `locked`: it
 * exists, and another transaction has locked it.
 */
type RowOutcome =
  | 'written'
  | 'unchanged'
  | 'prevented'
  | 'changed'
  | 'repeated'
  | 'locked'
  | 'left'
  | 'missing'

/** What the statement returns for one row. */
export interface RowResult {
  /** Its index in the batch. */
  readonly index: number
  readonly state: RowOutcome
  /** Rows that may be meant; only where there are several. */
  readonly copies: number | null
  /** The earlier values of a written row's cells. No entry: NULL, or no such key. */
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** As in `fillrate.rows`: what it left in the columns that inputs read. Null: nothing is recorded. */
  readonly ownWrites: Record<string, unknown> | null
  /** The recorded cells as the user gave them; only where AFTER triggers may change them once more. */
  readonly given: Record<string, unknown> | null
  /** Cells that stay as they are, also those that the batch has no value for. */
  readonly protected: readonly string[] | null
  readonly skipped: readonly RefusedCell[] | null
  /** Cells that hold the new value already, written for earlier inputs. */
  readonly confirmed: readonly string[] | null
}

/*
 * Each cell is returned in a column of its own, as text: the database makes JSON objects slowly. A column that a row does not
 * need is NULL.
 */

type Cells = Pick<RowUpdate<never>, 'cells'>

/** An entry of `before`. */
interface PreviousValue {
  readonly name: string
  readonly sql: string
  readonly read: (text: string) => unknown
}

/**
 * A column without a value, or a missing key, has no entry, because JSON null is something else. Parents of a key that are
 * empty or JSON null have one: an undo needs them to know which parents the write created.
 */
const previousValues = ({ cells }: Cells): PreviousValue[] =>
  cells.flatMap((cell, n) => [
    ...listParents(cell).map(({ name, value }) => ({
      name,
      sql: `case when "~changed${n}" and ${value} in ('{}', 'null') then ${value}::text end`,
      read: parseExactJson,
    })),
    {
      name: cell.column,
      sql: `case when "~changed${n}" then ${cellTextSql(cell)} end`,
      read: (text: string) => readCellText(cell, text),
    },
  ])

/** SQL for the columns of `~evaluated` that have the earlier values. */
export const beforeColumns = (update: Cells): string[] =>
  previousValues(update).map(({ sql }, n) => `${sql} as "~before${n}"`)

/** SQL for the columns of `~written` that the result has of a row that is written. `t`: the row as it is left. */
export const afterColumns = ({ cells }: Cells, preview: boolean): string[] =>
  cells.map((cell, n) => {
    // An expression may have another type, which the driver would parse.
    const cast = cell.path.length === 0 ? `::${wideCast(cell.type)}` : ''
    const text = preview ? valueTextSql(cell, `j."~new${n}"${cast}`) : cellTextSql(cell)
    return `case when j."~changed${n}" then ${text} end as "~after${n}"`
  })

/** The columns of `~evaluated` that have lists of cells. */
export const listColumns = ({ confirmed }: Pick<RowUpdate<never>, 'confirmed'>): string[] => [
  '"~protected"',
  '"~skipped"',
  ...(confirmed === undefined ? [] : ['"~confirmed"']),
]

/** The columns of `~evaluated` that the result of a written row needs. */
export const keptColumns = (update: Cells): string[] => [
  ...update.cells.map((_, n) => `"~changed${n}"`),
  ...previousValues(update).map((_, n) => `"~before${n}"`),
]

const stateSql = (state: RowOutcome): string => `'${state}'`

/**
 * A row for each row of the batch. The rows are counted first, because nearly always all of them are written. Where keys may
 * repeat, the counts say nothing.
 */
export function resultsSql<Item>(source: Source, update: RowUpdate<Item>): string {
  const repeats = update.copies !== null
  const written = [...keptColumns(update), ...update.cells.map((_, n) => `"~after${n}"`), '"~own writes"']
  const given = source.ownWrites !== undefined && source.table.hasAfterTriggers ? ['"~given"'] : []
  const lists = [...given, ...listColumns(update)]
  const nulls = (names: readonly string[]): string => names.map((name) => `null as ${name}`).join(', ')
  const texts = lists.map((name) => `${name}::text as ${name}`).join(', ')
  return `
      select "~i" as index, ${stateSql('written')}::text as state, ${repeats ? 'null::bigint as copies, ' : ''}
             ${written.map((name) => (name === '"~own writes"' ? `${name}::text as ${name}` : name)).join(', ')}, ${texts}
        from "~written" where ${setRolePathSql(source)}
      union all
      (select ${repeats ? 'distinct on ("~i") ' : ''}"~i", case ${repeats ? `when "~copies" > 1 then ${stateSql('repeated')} ` : ''}when "~same" is not true then ${stateSql('changed')}
             when "~changes" then ${stateSql('prevented')} else ${stateSql('unchanged')} end, ${repeats ? '"~copies", ' : ''}
             ${nulls(written)}, ${texts}
        from "~evaluated"
       where ${repeats ? '' : '(select count(*) from "~written") < (select count(*) from "~evaluated") and '}"~i" not in (select "~i" from "~written")
       ${repeats ? 'order by "~i", "~same" is true desc' : ''})
      union all
      select "~row", ${missingStateSql(source, update)}, ${repeats ? 'null, ' : ''}
             ${nulls([...written, ...lists])}
        from ${batchSql(update.batch.slice(0, 2), update.bisecting, '"~batch"')}
       where ${repeats ? '' : `(select count(*) from "~evaluated") < ${batchLengthSql(update.bisecting)} and `}"~row" not in (select "~i" from "~evaluated")`
}

/**
 * SQL for the state of a row that `~evaluated` lacks. Few rows do, each found by its key: without OFFSET 0 the planner may
 * read the whole table for it.
 */
const missingStateSql = <Item>(source: Source, { keepsLocked }: RowUpdate<Item>): string => `
             case ${keepsLocked ? `when exists (select from "~locked" as l where l."~i" = "~batch"."~row") then ${stateSql('left')}` : ''}
                  when exists (select from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')} offset 0) then ${stateSql('locked')}
                  else ${stateSql('missing')} end`

/** A row as the statement returns it: each column as text, or NULL. */
interface ResultColumns {
  readonly [column: string]: unknown
  readonly index: number
  readonly state: RowOutcome
  readonly copies?: number | string | null
}

/** Returns what reads the rows of an update's statement. */
export function resultReader(update: Cells): (row: object) => RowResult {
  const previous = previousValues(update).map((one, n) => ({ ...one, column: `~before${n}` }))
  const readAfter = afterReader(update.cells)
  const readBefore = (row: ResultColumns): Record<string, unknown> => {
    const entries: Array<[string, unknown]> = []
    for (const { name, column, read } of previous) {
      const text = row[column] as string | null
      if (text !== null) entries.push([name, read(text)])
    }
    return Object.fromEntries(entries)
  }
  return (one) => {
    const row = one as ResultColumns
    const written = row.state === 'written'
    return {
      index: row.index,
      state: row.state,
      copies: row.copies == null ? null : Number(row.copies),
      before: written ? readBefore(row) : null,
      after: written ? readAfter(row, ({ changed }) => row[changed] === true) : null,
      ownWrites: readJson(row['~own writes']) as RowResult['ownWrites'],
      given: readJson(row['~given']) as RowResult['given'],
      protected: readJson(row['~protected']) as RowResult['protected'],
      skipped: readJson(row['~skipped']) as RowResult['skipped'],
      confirmed: readJson(row['~confirmed'] ?? null) as RowResult['confirmed'],
    }
  }
}

interface CellColumns {
  readonly cell: MappedCell
  readonly changed: string
  readonly after: string
}

/** Returns what reads the new values of those cells that were written. */
export function afterReader(cells: readonly MappedCell[]) {
  const columns = cells.map((cell, n): CellColumns => ({
    cell,
    changed: `~changed${n}`,
    after: `~after${n}`,
  }))
  return (
    row: { readonly [column: string]: unknown },
    isWritten: (columns: CellColumns) => boolean,
  ): Record<string, unknown> => {
    const entries: Array<[string, unknown]> = []
    for (const one of columns) {
      if (!isWritten(one)) continue
      const text = row[one.after] as string | null
      entries.push([one.cell.column, text === null ? null : readCellText(one.cell, text)])
    }
    return Object.fromEntries(entries)
  }
}

export const readJson = (text: unknown): unknown => (typeof text === 'string' ? parseExactJson(text) : null)
