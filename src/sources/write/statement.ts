import { wideCast } from '../column-type.ts'
import { keyEqualsSql, keyFromTextSql, keyMatchesSql, keyOrderSql, placeEqualsSql } from '../key.ts'
import { isWritingSql, leftByWriteSql } from '../own-writes.ts'
import { quoteName } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { batchSql } from './batch.ts'
import { afterColumns, beforeColumns, keptColumns, listColumns, resultsSql } from './result-columns.ts'
import { type IndexedCell, jsonColumns, type RowUpdate } from './row-update.ts'

/**
 * The statement that writes a batch: a batch in, a row for each row of it out, which `resultReader` reads. No order: to
 * sort them cost more than to find them by their index. While bisecting, they are one JSON text.
 *
 * 1. `~locked` locks the rows, in key order, and reads them as locked. NO KEY, so that rows that reference them can still
 *    be inserted. SKIP LOCKED: a row that another transaction has locked is reported as such and postponed. Waiting for it
 *    would hold the locks on all rows before it for as long as a user's transaction stays open, and could end in a
 *    deadlock whose victim is the user.
 * 2. `~evaluated` computes everything on the locked versions: the joins, the hash of the inputs, the policies, the new
 *    values. `t` and the names of the joins mean what they mean in the configuration; all others begin with a tilde, so
 *    that none can be confused with a table or column of the user's.
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
        from ${keepsLocked ? '' : `${locked} as `}${lockedRowSql(source, update.reads)}
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
  const columns = [
    ...reads.map((name, n) => `t.${quoteName(name)} as "~column${n}"`),
    ...(source.table.isInherited ? ['t.tableoid as "~table", t.ctid as "~place"'] : []),
  ]
  return `(
      select "~row" as "~i", "~batch".*, t.*
        from (select b.* from ${batchSql(batch, bisecting, 'b')} cross join lateral ${keyFromTextSql(source, 'b."~key"')} as p
              ${preview ? '' : `where ${isWritingSql(source)}`} order by ${keyOrderSql(source, 'p')} offset 0) as "~batch"
       cross join lateral (
        select ${columns.join(', ')} from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')}
         ${preview ? '' : 'for no key update skip locked'}) as t)`
}

/** SQL for the locked rows in FROM, each as `t`. */
function lockedRowSql({ table }: Source, reads: readonly string[]): string {
  const columns = reads.map((name, n) => `"~column${n}" as ${quoteName(name)}`)
  if (table.isInherited) columns.push('"~table" as tableoid')
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
  ...(source.table.isInherited ? ['"~table", "~place"'] : []),
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
       where ${matches.join(' and ')} and ${placeEqualsSql(source)} and ${isWrittenSql(update)} and ${ALL_EVALUATED}
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
  const value = isTouch ? `j."~new${n}"::${wideCast(cell.type)}` : `j."~new${n}"`
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
