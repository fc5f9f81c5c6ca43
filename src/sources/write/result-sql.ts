import { cellJsonSql, isBlankValueSql } from '../cell.ts'
import { listParents } from './json-cells.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { type IndexedOutput, hasNewValueSql, isTouchedSql } from './cell-sql.ts'
import { quoteLiteral } from '../quote.ts'

/** What the write statement tells of one row. */
export interface WriteResultRow {
  /** Its place in the batch. */
  readonly i: number
  readonly found: boolean
  /** It is there, and another transaction had locked it. */
  readonly locked: boolean
  /** Rows that the joins gave for it. */
  readonly copies: number | null
  /** Whether its inputs are those that were asked with. */
  readonly same: boolean | null
  readonly changes: boolean | null
  readonly written: boolean
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  readonly kept: readonly string[] | null
  readonly skipped: ReadonlyArray<{ readonly column: string; readonly reason: string }> | null
}

/** SQL for what the written cells held, touched ones among them. */
export const beforeJsonSql = (source: Source, cells: readonly IndexedOutput[]): string =>
  concatJson([
    ...cells.flatMap(({ output, n }) => previousValueEntries(output, `"~set${n}"`)),
    ...source.touches.flatMap((touch) => previousValueEntries(touch, isTouchedSql(touch))),
  ])

/**
 * SQL for what one cell holds. A column that holds nothing, or a key that is not there, has no entry, because JSON
 * null is something else. Parents of a key that are empty or JSON null have one, or they could not be told from
 * parents made by the write when it is taken back.
 */
export function previousValueEntries(cell: MappedCell, when: string): string[] {
  const parents = listParents(cell).map(({ name, value }) =>
    jsonEntry(`${when} and ${value} in ('{}', 'null')`, name, value),
  )
  return parents.concat(
    jsonEntry(`${when} and ${cellJsonSql(cell)} is not null`, cell.column, cellJsonSql(cell)),
  )
}

/** SQL for what the written and touched cells hold now. Here a column without a value has the entry null. */
export function afterJsonSql(
  source: Source,
  cells: readonly IndexedOutput[],
  value: (cell: MappedCell, column: string) => string,
): string {
  return concatJson([
    ...cells.map(({ output, n }) => jsonEntry(`j."~set${n}"`, output.column, value(output, `j."~new${n}"`))),
    ...source.touches.map((touch, n) =>
      jsonEntry(`j."~touched${n}"`, touch.column, value(touch, `j."~touch${n}"`)),
    ),
  ])
}

/** SQL for the names of the cells that held a value which the policy protects. */
export function protectedJsonSql(cells: readonly IndexedOutput[]): string {
  const names = cells.map(
    ({ output, n }) => `case when "~given${n}" and not "~open${n}" then ${quoteLiteral(output.column)} end`,
  )
  return `to_jsonb(array_remove(array[${names.join(', ')}]::text[], null))`
}

/** SQL for the cells whose own expression gave nothing, or a text that is too long. */
export function skippedJsonSql(cells: readonly IndexedOutput[]): string {
  const parts = cells
    .filter(
      ({ output }) => output.mapping.sql !== null || output.fit.kind === 'text' || output.fit.kind === 'bits',
    )
    .map(({ output, n }) => {
      const isNothing = `"~made${n}" is null or ${isBlankValueSql(`"~made${n}"`, output.fit)}`
      const isShort =
        output.fit.kind === 'bits' && output.fit.exact
          ? `length("~made${n}") < ${output.fit.length}`
          : 'false'
      const reason = `case when ${isNothing} then 'no_value' when ${isShort} then 'not_a_bit_string' else 'too_long' end`
      const item = `jsonb_build_object('column', ${quoteLiteral(output.column)}, 'reason', ${reason})`
      const when = `"~same" and "~ready${n}" and not (${hasNewValueSql({ output, n })})`
      return `case when ${when} then jsonb_build_array(${item}) else '[]' end`
    })
  return parts.length > 0 ? parts.join(' || ') : `'[]'::jsonb`
}

export const jsonEntry = (when: string, name: string, value: string): string =>
  `case when ${when} then jsonb_build_object(${quoteLiteral(name)}, ${value}) else '{}' end`

export const concatJson = (parts: readonly string[]): string =>
  parts.length > 0 ? parts.join(' || ') : `'{}'::jsonb`
