import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { cellJsonSql, isBlankValueSql } from '../cell.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { hasNewValueSql, type IndexedOutput, isTouchedSql } from './cell-sql.ts'
import { listParents } from './json-cells.ts'

/** What the write statement returns for one row. */
export interface WriteResultRow {
  /** Its index in the batch. */
  readonly index: number
  readonly found: boolean
  /** It exists, and another transaction has locked it. */
  readonly locked: boolean
  /** It exists, and no longer belongs to the source. */
  readonly left?: boolean
  /** Rows that the joins give for it. */
  readonly copies: number | null
  /** Its inputs are those of the lookup. */
  readonly same: boolean | null
  readonly changes: boolean | null
  readonly written: boolean
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** As in `fillrate.rows`: what it left in the columns that inputs read. Null: nothing is recorded. */
  readonly ownWrites: Record<string, unknown> | null
  /** The recorded cells as the user gave them; only where AFTER triggers may change them once more. */
  readonly given?: Record<string, unknown> | null
  readonly protected: readonly string[] | null
  readonly skipped: ReadonlyArray<Omit<SkippedCell, 'value'>> | null
}

/** SQL for the earlier values of the cells that are written, touched ones included. */
export const beforeJsonSql = (source: Source, cells: readonly IndexedOutput[]): string =>
  concatJson([
    ...cells.flatMap(({ output, index }) => previousValueEntries(output, `"~changed${index}"`)),
    ...source.touches.flatMap((touch) => previousValueEntries(touch, isTouchedSql(touch))),
  ])

/**
 * SQL for one cell's earlier value. A column without a value, or a missing key, has no entry, because JSON null is
 * something else. Parents of a key that are empty or JSON null have one: an undo needs them to know which parents the
 * write created.
 */
export function previousValueEntries(cell: MappedCell, when: string): string[] {
  const parents = listParents(cell).map(({ name, value }) =>
    jsonEntry(`${when} and ${value} in ('{}', 'null')`, name, value),
  )
  return parents.concat(
    jsonEntry(`${when} and ${cellJsonSql(cell)} is not null`, cell.column, cellJsonSql(cell)),
  )
}

/** SQL for the values of the written and touched cells. Here a column without a value has the entry null. */
export function afterJsonSql(
  source: Source,
  cells: readonly IndexedOutput[],
  value: (cell: MappedCell, column: string) => string,
): string {
  return concatJson([
    ...cells.map(({ output, index }) =>
      jsonEntry(`j."~changed${index}"`, output.column, value(output, `j."~fitted${index}"`)),
    ),
    ...source.touches.map((touch, n) =>
      jsonEntry(`j."~touched${n}"`, touch.column, value(touch, `j."~touch${n}"`)),
    ),
  ])
}

/** SQL for the names of the cells with a value that the policy protects. */
export function protectedJsonSql(cells: readonly IndexedOutput[]): string {
  const names = cells.map(
    ({ output, index }) =>
      `case when "~has${index}" and not "~writable${index}" then ${quoteLiteral(output.column)} end`,
  )
  return `to_jsonb(array_remove(array[${names.join(', ')}]::text[], null))`
}

/** SQL for the cells whose own expression gave no value, or a text that is too long. */
export function skippedJsonSql(cells: readonly IndexedOutput[]): string {
  const parts = cells
    .filter(
      ({ output }) => output.mapping.sql !== null || output.fit.kind === 'text' || output.fit.kind === 'bits',
    )
    .map(({ output, index }) => {
      const isNothing = `"~cast${index}" is null or ${isBlankValueSql(`"~cast${index}"`, output.fit)}`
      const isShort =
        output.fit.kind === 'bits' && output.fit.exact
          ? `length("~cast${index}") < ${output.fit.length}`
          : 'false'
      const reason = `case when ${isNothing} then 'no_value' when ${isShort} then 'not_a_bit_string' else 'too_long' end`
      const item = `jsonb_build_object('column', ${quoteLiteral(output.column)}, 'reason', ${reason}, 'detail', null)`
      const when = `"~same" and "~ready${index}" and not (${hasNewValueSql({ output, index })})`
      return `case when ${when} then jsonb_build_array(${item}) else '[]' end`
    })
  return parts.length > 0 ? parts.join(' || ') : `'[]'::jsonb`
}

/** SQL for a JSON object with one entry, or an empty one. */
export const jsonEntry = (when: string, name: string, value: string): string =>
  `case when ${when} then jsonb_build_object(${quoteLiteral(name)}, ${value}) else '{}' end`

/** SQL for the union of JSON objects. */
export const concatJson = (parts: readonly string[]): string =>
  parts.length > 0 ? parts.join(' || ') : `'{}'::jsonb`
