import { keyEqualsSql, keyFromTextSql, keyMatchesSql, keyOrderSql } from '../key.ts'
import { isWritingSql, leftByWriteSql } from '../own-writes.ts'
import { quoteName, joinName, quoteList, quoteLiteral } from '../db.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { batchSql, batchLengthSql } from './batch.ts'
import { jsonColumns, setRolePathSql, type IndexedCell, type RowUpdate } from './row-update.ts'
import { parseExactJson } from '../../domain/json.ts'
import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { cellTextSql, readCellText, valueTextSql, jsonColumnSql } from '../cell.ts'

/** A key inside a json column that may be written. */
interface JsonCell {
  readonly cell: MappedCell
  /** SQL: whether it is written. */
  readonly written: string
  /** SQL for its new value, jsonb. */
  readonly value: string
}

interface Level {
  readonly leaves: Map<string, JsonCell>
  readonly inner: Map<string, Level>
}

/**
 * SQL for the new value of one json column from all keys that are written in it: creates missing parents, keeps siblings.
 * One expression over the current column, linear in the number of keys; a chain of `jsonb_set` would double with each.
 * @param as the column's own type, json or jsonb, or always jsonb
 */
export function composeJsonSql(cells: readonly JsonCell[], as: 'jsonb' | 'column' = 'column'): string {
  const first = cells[0]
  if (!first) throw new RangeError('a json column without any key')
  const root: Level = { leaves: new Map(), inner: new Map() }
  for (const leaf of cells) insertKey(root, leaf.cell.path, leaf)
  const column = jsonColumnSql(first.cell)
  const composed = levelSql(root, [], column)
  return as === 'column' && first.cell.type.fit.kind === 'json' ? `(${composed})::text::json` : composed
}

function insertKey(at: Level, path: readonly string[], leaf: JsonCell): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    at.leaves.set(key, leaf)
    return
  }
  const inner = at.inner.get(key) ?? { leaves: new Map(), inner: new Map() }
  at.inner.set(key, inner)
  insertKey(inner, rest, leaf)
}

function levelSql(at: Level, path: readonly string[], column: string): string {
  const now = `coalesce(nullif(${column} #> ${quoteList(path)}, 'null'), '{}')`
  const leaves = [...at.leaves].map(([key, leaf]) => additionSql(leaf.written, key, leaf.value))
  const inner = [...at.inner].map(([key, next]) =>
    additionSql(`(${conditionsIn(next).join(' or ')})`, key, levelSql(next, [...path, key], column)),
  )
  return `(${[now, ...leaves, ...inner].join(' || ')})`
}

const additionSql = (written: string, key: string, value: string): string =>
  `case when ${written} then jsonb_build_object(${quoteLiteral(key)}, ${value}) else '{}' end`

const conditionsIn = (at: Level): string[] => [
  ...[...at.leaves.values()].map(({ written }) => written),
  ...[...at.inner.values()].flatMap(conditionsIn),
]

/**
 * The parents of a key, outermost first: their configured names, and SQL for their values. A parent that is empty or
 * JSON null must be recorded: once the key is removed again, it looks like one that was created for it.
 */
export const listParents = (cell: MappedCell): Array<{ readonly name: string; readonly value: string }> =>
  cell.path.map((_, depth) => ({
    name: joinName([cell.attribute, ...cell.path.slice(0, depth)]),
    value: `(${jsonColumnSql(cell)} #> ${quoteList(cell.path.slice(0, depth))})`,
  }))

/** A cell that the database did not take. */
export type RefusedCell = Omit<SkippedCell, 'value'>

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
  /** Cells that stay as they are, also cells without a value in the batch. */
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
const beforeColumns = (update: Cells): string[] =>
  previousValues(update).map(({ sql }, n) => `${sql} as "~before${n}"`)

/** SQL for the columns of `~written` that the result has of a row that is written. `t`: the row as it is left. */
const afterColumns = ({ cells }: Cells, preview: boolean): string[] =>
  cells.map((cell, n) => {
    // An expression may have another type, which the driver would parse.
    const cast = cell.path.length === 0 ? `::${cell.type.cast}` : ''
    const text = preview ? valueTextSql(cell, `j."~new${n}"${cast}`) : cellTextSql(cell)
    return `case when j."~changed${n}" then ${text} end as "~after${n}"`
  })

/** The columns of `~evaluated` that have lists of cells. */
const listColumns = ({ confirmed }: Pick<RowUpdate<never>, 'confirmed'>): string[] => [
  '"~protected"',
  '"~skipped"',
  ...(confirmed === undefined ? [] : ['"~confirmed"']),
]

/** The columns of `~evaluated` that the result of a written row needs. */
const keptColumns = (update: Cells): string[] => [
  ...update.cells.map((_, n) => `"~changed${n}"`),
  ...previousValues(update).map((_, n) => `"~before${n}"`),
]

const stateSql = (state: RowOutcome): string => `'${state}'`

/**
 * A row for each row of the batch. The rows are counted first, because nearly always all of them are written. Where keys may
 * repeat, the counts say nothing.
 */
function resultsSql<Item>(source: Source, update: RowUpdate<Item>): string {
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
  const previous = previousValues(update).map((value, n) => ({ ...value, column: `~before${n}` }))
  const readAfter = afterReader(update.cells)
  const readBefore = (row: ResultColumns): Record<string, unknown> => {
    const entries: Array<[string, unknown]> = []
    for (const { name, column, read } of previous) {
      const text = row[column] as string | null
      if (text !== null) entries.push([name, read(text)])
    }
    return Object.fromEntries(entries)
  }
  return (result) => {
    const row = result as ResultColumns
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
    for (const column of columns) {
      if (!isWritten(column)) continue
      const text = row[column.after] as string | null
      entries.push([column.cell.column, text === null ? null : readCellText(column.cell, text)])
    }
    return Object.fromEntries(entries)
  }
}

export const readJson = (text: unknown): unknown => (typeof text === 'string' ? parseExactJson(text) : null)

/**
 * The statement that writes a batch: a row of the result for each row of the batch, which `resultReader` reads.
 * Without an order, because sorting cost more than finding the rows by their index. While bisecting, they are one
 * JSON text.
 *
 * 1. `~locked` locks the rows in key order and reads them as locked. NO KEY: rows that reference them can still be
 *   inserted. SKIP LOCKED: a locked row is postponed, because waiting would hold the locks on all rows before it
 *   while a user's transaction stays open, and could end in a deadlock whose victim is the user.
 * 2. `~evaluated` computes everything on the locked versions: the joins, the hash of the inputs, the policies, the
 *   new values. Only `t` and the names of the joins have no tilde, so that no name is confused with the user's.
 * 3. `~written` updates the rows in which something changes, and no others.
 *
 * A result comes from the last of these that has the row, or from the batch itself.
 * @param preview leaves out the lock and the update: `after` is then what would be written, before any trigger
 */
export function rowUpdateStatement<Item>(
  source: Source,
  update: RowUpdate<Item>,
  { preview = false } = {},
): string {
  const { keepsLocked, bisecting } = update
  const locked = lockedRowsSql(source, update, preview)
  const results = resultsSql(source, update)
  const writesNothing = preview || update.cells.length === 0
  return `
    with ${keepsLocked ? `"~locked" as materialized ${locked}, ` : ''}
    "~evaluated" as materialized (
      select ${evaluatedColumns(source, update).join(',\n             ')}
        from ${keepsLocked ? '' : `${locked} as `}${lockedRowSql(update.reads)}
       ${update.steps}
       where ${update.where}
    ), "~written" as (${writesNothing ? previewRowsSql(source, update) : updateRowsSql(source, update)}
    )
    ${bisecting ? `select coalesce(json_agg("~result"), '[]')::text as results from (${results}) as "~result"` : results}`
}

/**
 * In parentheses. The rows are sorted before they are locked, and each is looked up by its key: sorted and joined in one
 * step, all their columns were copied twice more.
 */
function lockedRowsSql<Item>(
  source: Source,
  { batch, reads, bisecting }: RowUpdate<Item>,
  preview: boolean,
): string {
  const columns = reads.map((name, n) => `t.${quoteName(name)} as "~column${n}"`)
  return `(
      select "~row" as "~i", "~batch".*, t.*
        from (select b.* from ${batchSql(batch, bisecting, 'b')} cross join lateral ${keyFromTextSql(source, 'b."~key"')} as p
              ${preview ? '' : `where ${isWritingSql(source)}`} order by ${keyOrderSql(source, 'p')} offset 0) as "~batch"
       cross join lateral (
        select ${columns.join(', ')} from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')}
         ${preview ? '' : 'for no key update skip locked'}) as t)`
}

/** SQL for the locked rows in FROM, each as `t`. */
function lockedRowSql(reads: readonly string[]): string {
  const columns = reads.map((name, n) => `"~column${n}" as ${quoteName(name)}`)
  return `"~locked" cross join lateral (select ${columns.join(', ')}) as t`
}

/**
 * SQL for what is computed from the columns of the steps before it. Fenced by OFFSET 0: flattened into the next step, an
 * expression would run once for each reference to it. The row's own number is among the columns, or Postgres would cache
 * each step's results by all of its inputs (Memoize), which never hits.
 */
export const stepSql = (name: string, columns: readonly string[]): string =>
  columns.length === 0
    ? ''
    : `cross join lateral (select ${[`"~i" as "~in ${name}"`, ...columns].join(', ')} offset 0) as "~${name}"`

const isWrittenSql = ({ copies }: Pick<RowUpdate<never>, 'copies'>): string =>
  `j."~same" and ${copies === null ? '' : 'j."~copies" = 1 and '}j."~changes"`

const evaluatedColumns = <Item>(source: Source, update: RowUpdate<Item>): string[] => [
  `"~i", "~same", (${['false', ...update.cells.map((_, n) => `"~changed${n}"`)].join(' or ')}) as "~changes"`,
  ...(update.copies === null ? [] : [`${update.copies} as "~copies"`]),
  ...source.keyColumns.map((column, n) => `t.${quoteName(column.name)} as "~key${n}"`),
  ...update.cells.map((_, n) => {
    const value = update.newValues?.get(n)
    return `"~changed${n}", ${value === undefined ? '' : `${value} as `}"~new${n}"`
  }),
  ...jsonColumns(update).map(
    ([, keys], n) =>
      `case when ${anyChangedSql(keys, '')} then ${update.jsonValueSql(keys, n)} end as "~json${n}"`,
  ),
  ...beforeColumns(update),
  ...(source.ownWrites === undefined ? [] : [`${update.given} as "~given"`]),
  `${update.protected} as "~protected", ${update.skipped} as "~skipped"`,
  ...(update.confirmed === undefined ? [] : [`${update.confirmed} as "~confirmed"`]),
]

const anyChangedSql = (keys: readonly IndexedCell[], alias: string): string =>
  `(${keys.map(({ index }) => `${alias}"~changed${index}"`).join(' or ')})`

function updateRowsSql<Item>(source: Source, update: RowUpdate<Item>): string {
  const plain = update.cells.flatMap((cell, n) =>
    cell.path.length === 0 ? [cellAssignmentSql(cell, n, update.bisecting)] : [],
  )
  const inJson = jsonColumns(update).map(([attribute, keys], n) =>
    assignmentSql(attribute, anyChangedSql(keys, 'j.'), `j."~json${n}"`),
  )
  const matches = source.keyColumns.map((column, n) => keyEqualsSql(column, `j."~key${n}"`))
  return `
      update ${source.table.sql} as t set ${[...plain, ...inJson].join(', ')}
        from "~evaluated" as j
       where ${matches.join(' and ')} and ${isWrittenSql(update)} and ${ALL_EVALUATED}
      returning ${writtenColumns(source, update, false)}`
}

/**
 * SQL: always true, and evaluates all rows before the first is updated. Otherwise they may be locked in turn with the updates:
 * one that a BEFORE trigger of an earlier row has changed is then skipped as locked, and a volatile function reads a table
 * that is half updated.
 */
const ALL_EVALUATED = '(select count(*) from "~evaluated") is not null'

/**
 * A touched column is set in every row that is written, so that its expression is assigned as it is. While bisecting, it may
 * stay: the cast then makes both branches one type; without a length, because that of an explicit cast truncates silently.
 */
function cellAssignmentSql(cell: MappedCell, n: number, bisecting: boolean): string {
  const isTouch = 'expression' in cell
  if (isTouch && !bisecting) return `${quoteName(cell.attribute)} = j."~new${n}"`
  const value = isTouch ? `j."~new${n}"::${cell.type.cast}` : `j."~new${n}"`
  // A domain must be named, or the row's old value would be checked against it too.
  const typed = cell.type.isDomain ? `(${value})::${cell.type.name}` : value
  return assignmentSql(cell.attribute, `j."~changed${n}"`, typed)
}

const assignmentSql = (attribute: string, when: string, value: string): string =>
  `${quoteName(attribute)} = case when ${when} then ${value} else t.${quoteName(attribute)} end`

const previewRowsSql = <Item>(source: Source, update: RowUpdate<Item>): string => `
      select ${writtenColumns(source, update, true)}
        from "~evaluated" as j where ${isWrittenSql(update)}`

/** The columns of `~written`. */
const writtenColumns = <Item>(source: Source, update: RowUpdate<Item>, preview: boolean): string =>
  [
    'j."~i"',
    ...[...keptColumns(update), ...listColumns(update)].map((name) => `j.${name}`),
    ...(source.ownWrites === undefined ? [] : ['j."~given"']),
    ...afterColumns(update, preview),
    `${preview ? 'null::jsonb' : leftByWriteSql(source)} as "~own writes"`,
  ].join(', ')
