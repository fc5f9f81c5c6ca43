import { quoteLiteral } from '../db.ts'
import type { MappedCell, Source } from '../source-model.ts'
import type { BatchColumn, BatchItem } from './batch.ts'

/** What is done with the rows of a batch: by a write, or by an undo. */
export interface RowUpdate<Item> {
  readonly batch: readonly BatchColumn<Item & BatchItem>[]
  /** The cells that may be written. Of the n-th, the steps say whether it is, `~changed<n>`, and its value, `~new<n>`. */
  readonly cells: readonly MappedCell[]
  /** SQL for the new value of some cells, by their place, where it is not `~new<n>`. Absent: of none. */
  readonly newValues?: ReadonlyMap<number, string>
  /** The columns of the table that are read: `t` has no others. */
  readonly reads: readonly string[]
  /** What follows the row `t` in FROM. It gives `~same` too: whether the row has the inputs that the batch was made for. */
  readonly steps: string
  /** Which rows belong to the batch; others count as missing. */
  readonly where: string
  /** SQL for the new value of a json column from the cells in it, the n-th of such columns. */
  readonly jsonValueSql: (cells: readonly IndexedCell[], n: number) => string
  /** SQL for the recorded cells as the user gave them. */
  readonly given: string
  /** SQL for the names of the cells that stay as they are, as a JSON array or NULL. */
  readonly protected: string
  /** SQL for the cells without a new value, in the same form. */
  readonly skipped: string
  /**
   * SQL for the names of the cells that hold the new value already, written for earlier inputs: NULL where the row is not the one
   * that was written for them. Absent: it never is.
   */
  readonly confirmed?: string
  /** SQL for the number of rows that may be meant, of which only one can be right. Null: there are no several. */
  readonly copies: string | null
  /** Whether `~locked` is read again: it is then kept, which costs two copies of it. */
  readonly keepsLocked: boolean
  /** For a batch that failed: as JSON, and each of its units can be left out by row. */
  readonly bisecting: boolean
  /** None: a row is written as a whole, or not at all. */
  readonly units: readonly CellUnit[]
}

/** A cell and its place among the writable cells, which names its columns in the statement: `~changed0`, `~new0`. */
export interface IndexedCell {
  readonly cell: MappedCell
  readonly index: number
}

/** The json columns with keys that may be written, each with these keys. */
export const jsonColumns = ({
  cells,
}: {
  readonly cells: readonly MappedCell[]
}): [attribute: string, keys: IndexedCell[]][] => [
  ...Map.groupBy(
    cells.map((cell, index) => ({ cell, index })).filter(({ cell }) => cell.path.length > 0),
    ({ cell }) => cell.attribute,
  ),
]

/** Cells that are written together or not at all: an output, the outputs of a group, a touched column. */
export interface CellUnit {
  readonly columns: readonly string[]
  /** The columns of the batch without which the cells are left out. */
  readonly inputs: readonly string[]
}

/** SQL for a list that few rows have anything in: NULL for all others, which saves making and joining empty lists. */
export const whereAnySql = (conditions: readonly string[], list: string): string =>
  conditions.length > 0 ? `case when ${conditions.join(' or ')} then ${list} end` : 'null::jsonb'

/** SQL for the names of the cells for which a condition holds. */
export const namesWhereSql = (cells: ReadonlyArray<readonly [cell: MappedCell, when: string]>): string =>
  whereAnySql(
    cells.map(([, when]) => when),
    `to_jsonb(array_remove(array[${cells.map(([cell, when]) => `case when ${when} then ${quoteLiteral(cell.column)} end`).join(', ')}]::text[], null))`,
  )

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
