import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { cellJsonSql, isBlankValueSql, valueJsonSql } from '../cell.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import {
  castColumn,
  hasNewValueSql,
  type IndexedOutput,
  isGroupIncompleteSql,
  isReadySql,
} from './cell-sql.ts'
import { listParents } from './json-cells.ts'
import { duplicateReasonSql } from './unique-sql.ts'

/** A cell that the database did not take. `value`: what its expression gave; without it, the record's value. */
export type RefusedCell = Omit<SkippedCell, 'value'> & { readonly value?: unknown }

/**
 * What became of a row. `repeated`: the joins give several rows for its key. `changed`: its inputs are not those of the
 * lookup. `prevented`: a trigger left it as it was. `left`: it exists, and no longer belongs to the source. `locked`: it
 * exists, and another transaction has locked it.
 */
export type WriteState =
  | 'written'
  | 'unchanged'
  | 'prevented'
  | 'changed'
  | 'repeated'
  | 'locked'
  | 'left'
  | 'missing'

/** SQL for a state. */
export const stateSql = (state: WriteState): string => `'${state}'`

/** What the write statement returns for one row. */
export interface WriteResultRow {
  /** Its index in the batch. */
  readonly index: number
  readonly state: WriteState
  readonly written: boolean
  /** Rows that the joins give for it; only where there are several. */
  readonly copies: number | null
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** As in `fillrate.rows`: what it left in the columns that inputs read. Null: nothing is recorded. */
  readonly ownWrites: Record<string, unknown> | null
  /** The recorded cells as the user gave them; only where AFTER triggers may change them once more. */
  readonly given: Record<string, unknown> | null
  /** Cells that the policy protects, also those that the batch has no value for. */
  readonly protected: readonly string[] | null
  readonly skipped: readonly RefusedCell[] | null
}

/** SQL for one cell's earlier value, and those of its parents, as the write records them (`previousValues`). */
export function previousValueEntries(cell: MappedCell, when: string): string[] {
  const parents = listParents(cell).map(({ name, value }) =>
    jsonEntry(`${when} and ${value} in ('{}', 'null')`, name, value),
  )
  return parents.concat(
    jsonEntry(`${when} and ${cellJsonSql(cell)} is not null`, cell.column, cellJsonSql(cell)),
  )
}

/** SQL for the names of the cells that the policy protects, whether the record has a value or not. */
export function protectedJsonSql(cells: readonly IndexedOutput[]): string {
  const names = cells.map(({ output, index }) => {
    return `case when not "~writable${index}" then ${quoteLiteral(output.column)} end`
  })
  return whereAnySql(
    cells.map(({ index }) => `not "~writable${index}"`),
    `to_jsonb(array_remove(array[${names.join(', ')}]::text[], null))`,
  )
}

/**
 * SQL for the cells whose own expression gave no value, a text that is too long, or a duplicate where `unique` is set, and
 * for those left out with another cell of their group.
 */
export function skippedJsonSql(cells: readonly IndexedOutput[]): string {
  const parts = cells.flatMap((cell) => {
    const { output, index } = cell
    const duplicate = duplicateReasonSql(cell, cells)
    const incomplete = isGroupIncompleteSql(cell, cells)
    const found = [
      duplicate,
      incomplete === null ? null : { when: incomplete, reason: `'group_incomplete'`, detail: 'null' },
    ].flatMap((one) => (one === null ? [] : [skippedItemSql(cell, `"~fitted${index}"`, one)]))
    if (output.mapping.sql === null && output.fit.kind !== 'text' && output.fit.kind !== 'bits') return found
    const cast = castColumn(cell)
    const isNothing = `${cast} is null or ${isBlankValueSql(cast, output.fit)}`
    const isShort =
      output.fit.kind === 'bits' && output.fit.exact ? `length(${cast}) < ${output.fit.length}` : 'false'
    const reason = `case when ${isNothing} then 'no_value' when ${isShort} then 'not_a_bit_string' else 'too_long' end`
    const when = `"~same" and ${isReadySql(cell)} and not (${hasNewValueSql(cell)})`
    const value = `case when not (${isNothing}) then ${cast} end`
    return [...found, skippedItemSql(cell, value, { when, reason, detail: 'null' })]
  })
  return whereAnySql(
    parts.map(({ when }) => when),
    parts.map(({ array }) => array).join(' || '),
  )
}

/** SQL for a list that few rows have anything in: NULL for all others, which saves making and joining empty lists. */
const whereAnySql = (conditions: readonly string[], list: string): string =>
  conditions.length > 0 ? `case when ${conditions.join(' or ')} then ${list} end` : 'null::jsonb'

/** SQL for an array with a skipped cell, or an empty one, and when. The value of an expression is what only the database knows. */
function skippedItemSql(
  { output }: IndexedOutput,
  value: string,
  { when, reason, detail }: { readonly when: string; readonly reason: string; readonly detail: string },
): { readonly when: string; readonly array: string } {
  const made = output.mapping.sql === null ? '' : `, 'value', ${valueJsonSql(output, `(${value})`)}`
  const item = `jsonb_build_object('column', ${quoteLiteral(output.column)}, 'reason', ${reason}, 'detail', ${detail}${made})`
  return { when: `(${when})`, array: `case when ${when} then jsonb_build_array(${item}) else '[]' end` }
}

/** SQL for a JSON object with one entry, or an empty one. */
export const jsonEntry = (when: string, name: string, value: string): string =>
  `case when ${when} then jsonb_build_object(${quoteLiteral(name)}, ${value}) else '{}' end`

/** SQL for the union of JSON objects. */
export const concatJson = (parts: readonly string[]): string =>
  parts.length > 0 ? parts.join(' || ') : `'{}'::jsonb`

/*
 * The user's triggers and constraints find their names in the role's own search path, as in all other sessions; Fillrate's
 * statements do not search all of it (`store/search-path.ts`). The names of a statement are looked up before it is executed. So it is
 * the update itself that sets the role's path, once all that Fillrate and the configuration evaluate is evaluated.
 */

/** SQL: always true, and sets the role's path after `~evaluated`, before the first trigger. `true` where it is set already. */
export const setRolePathSql = ({ table }: Pick<Source, 'table'>): string =>
  table.rolePath === null
    ? 'true'
    : `(select set_config('search_path', ${quoteLiteral(table.rolePath.own)}, true) from (select count(*) from "~evaluated") as e) is not null`

/** SQL that ends it, after all triggers. */
export const holdPathSql = ({ table }: Pick<Source, 'table'>): string =>
  table.rolePath === null ? '' : `set local search_path = ${table.rolePath.held};`
