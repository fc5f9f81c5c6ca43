import { parseExactJson } from '../../domain/json.ts'
import { cellTextSql, readCellText, valueTextSql } from '../cell.ts'
import { wideCast } from '../column-type.ts'
import { mayRepeatKeys } from '../inputs.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { BATCH_IN_ARRAYS, BATCH_IN_JSON } from './batch.ts'
import { listParents } from './json-cells.ts'
import { missingStateSql } from './locked-rows.ts'
import {
  type RefusedCell,
  stateSql,
  type WriteState,
  type WriteResultRow,
  setRolePathSql,
} from './result-sql.ts'

/*
 * The write returns each cell in a column of its own, as text: to make JSON objects of them in the database took a third of
 * the statement. A column that a row does not need is NULL.
 */

/** A cell that may be written: an output, or a touched column. */
interface WritableCell {
  readonly cell: MappedCell
  /** The column of `~evaluated` that says whether it is written. */
  readonly changed: string
  /** The column with its new value. */
  readonly value: string
}

const writableCells = (source: Source): WritableCell[] => [
  ...source.outputs.map((cell, n) => ({ cell, changed: `"~changed${n}"`, value: `"~fitted${n}"` })),
  ...source.touches.map((cell, n) => ({ cell, changed: `"~touched${n}"`, value: `"~touch${n}"` })),
]

/** An entry of `before`. */
interface PreviousValue {
  readonly name: string
  readonly sql: string
  readonly read: (text: string) => unknown
}

/**
 * The earlier values of the cells that are written. A column without a value, or a missing key, has no entry, because JSON
 * null is something else. Parents of a key that are empty or JSON null have one: an undo needs them to know which parents
 * the write created.
 */
const previousValues = (source: Source): PreviousValue[] =>
  writableCells(source).flatMap(({ cell, changed }) => [
    ...listParents(cell).map(({ name, value }) => ({
      name,
      sql: `case when ${changed} and ${value} in ('{}', 'null') then ${value}::text end`,
      read: parseExactJson,
    })),
    {
      name: cell.column,
      sql: `case when ${changed} then ${cellTextSql(cell)} end`,
      read: (text: string) => readCellText(cell, text),
    },
  ])

/** SQL for the columns of `~evaluated` that have the earlier values. */
export const beforeColumns = (source: Source): string[] =>
  previousValues(source).map(({ sql }, n) => `${sql} as "~before${n}"`)

/** SQL for the columns of `~written` that the result has of a row that is written. `t`: the row as it is left. */
export const afterColumns = (source: Source, { preview }: { readonly preview: boolean }): string[] =>
  writableCells(source).map(({ cell, changed, value }, n) => {
    // The expression of a touched column may have another type, which the driver would parse.
    const cast = cell.path.length === 0 ? `::${wideCast(cell.type)}` : ''
    const text = preview ? valueTextSql(cell, `j.${value}${cast}`) : cellTextSql(cell)
    return `case when j.${changed} then ${text} end as "~after${n}"`
  })

/** The columns of `~evaluated` that the result of a written row needs. */
export const keptColumns = (source: Source): string[] => [
  ...writableCells(source).map(({ changed }) => changed),
  ...previousValues(source).map((_, n) => `"~before${n}"`),
]

/** The columns of `~written` that only a written row has. */
const writtenColumns = (source: Source): string[] => [
  ...keptColumns(source),
  ...writableCells(source).map((_, n) => `"~after${n}"`),
]

/**
 * A row for each row of the batch. The rows are counted first, because nearly always all of them are written, and to find that
 * out row by row takes three times as long. Where keys may repeat, the counts say nothing.
 */
export function writeResultsSql(source: Source, { apart }: { readonly apart: boolean }): string {
  const repeats = mayRepeatKeys(source)
  const batch = apart ? BATCH_IN_JSON : BATCH_IN_ARRAYS
  const written = writtenColumns(source)
  const given = source.ownWrites !== undefined && source.table.hasAfterTriggers ? ['"~given"'] : []
  const lists = [...given, '"~protected"', '"~skipped"']
  const named = [
    ...given.map((name) => `${name}::text as given`),
    '"~protected"::text as protected',
    '"~skipped"::text as skipped',
  ]
  return `
      select "~i" as index, ${stateSql('written')}::text as state, ${repeats ? 'null::bigint as copies, ' : ''}
             ${[...written, '"~own writes"::text as own_writes', ...named].join(', ')}
        from "~written" where ${setRolePathSql(source)}
      union all
      select ${repeats ? 'distinct on ("~i") ' : ''}"~i", case ${repeats ? `when "~copies" > 1 then ${stateSql('repeated')} ` : ''}when "~same" is not true then ${stateSql('changed')}
             when "~changes" then ${stateSql('prevented')} else ${stateSql('unchanged')} end, ${repeats ? '"~copies", ' : ''}
             ${[...written, 'own_writes'].map(() => 'null').join(', ')}, ${lists.map((name) => `${name}::text`).join(', ')}
        from "~evaluated"
       where ${repeats ? '' : '(select count(*) from "~written") < (select count(*) from "~evaluated") and '}"~i" not in (select "~i" from "~written")
      union all
      select "~row", ${missingStateSql(source)}, ${repeats ? 'null, ' : ''}
             ${[...written, 'own_writes', ...lists].map(() => 'null').join(', ')}
        from ${batch.keys}
       where ${repeats ? '' : `(select count(*) from "~evaluated") < ${batch.length} and `}"~row" not in (select "~i" from "~evaluated")`
}

/** A row as the statement returns it: each column as text, or NULL. */
interface ResultColumns {
  readonly [column: string]: unknown
  readonly index: number
  readonly state: WriteState
  readonly copies?: number | string | null
  readonly own_writes: string | null
  readonly given?: string | null
  readonly protected: string | null
  readonly skipped: string | null
}

/** Returns what reads the rows of a source's statement. */
export function resultReader(source: Source): (row: object) => WriteResultRow {
  const cells = writableCells(source).map(({ cell, changed }, n) => ({
    cell,
    changed: changed.slice(1, -1),
    after: `~after${n}`,
  }))
  const previous = previousValues(source).map((one, n) => ({ ...one, column: `~before${n}` }))
  const readBefore = (row: ResultColumns): Record<string, unknown> => {
    const entries: Array<[string, unknown]> = []
    for (const { name, column, read } of previous) {
      const text = row[column] as string | null
      if (text !== null) entries.push([name, read(text)])
    }
    return Object.fromEntries(entries)
  }
  const readAfter = (row: ResultColumns): Record<string, unknown> => {
    const entries: Array<[string, unknown]> = []
    for (const { cell, changed, after } of cells) {
      const text = row[after] as string | null
      if (row[changed] === true) entries.push([cell.column, text === null ? null : readCellText(cell, text)])
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
      written,
      before: written ? readBefore(row) : null,
      after: written ? readAfter(row) : null,
      ownWrites: readJson(row.own_writes) as Record<string, unknown> | null,
      given: readJson(row.given ?? null) as Record<string, unknown> | null,
      protected: readJson(row.protected) as readonly string[] | null,
      skipped: readJson(row.skipped) as readonly RefusedCell[] | null,
    }
  }
}

const readJson = (text: string | null): unknown => (text === null ? null : parseExactJson(text))
