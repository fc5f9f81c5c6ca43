import { isReachableSql } from '../cell.ts'
import { wideCast } from '../column-type.ts'
import { belongsSql, joinsSql, mayRepeatKeys, rowInputsSql } from '../inputs.ts'
import { keyEqualsSql, placeEqualsSql } from '../key.ts'
import { leftByWriteSql } from '../own-writes.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { MappedCell, MappedTouch, Source } from '../source-model.ts'
import { listReadColumns } from '../triggers/columns.ts'
import {
  castColumn,
  castValueSql,
  fitValueSql,
  isFittedByCast,
  isTakenOverSql,
  type IndexedOutput,
  isChangedSql,
  isWritableSql,
  touchValueSql,
} from './cell-sql.ts'
import { readsEarlier } from './batch.ts'
import { composeJsonSql } from './json-cells.ts'
import { lockedRowsSql, mayLoseRows } from './locked-rows.ts'
import { afterColumns, beforeColumns, keptColumns, writeResultsSql } from './result-columns.ts'
import { protectedJsonSql, skippedJsonSql } from './result-sql.ts'
import { duplicatesSql, hasUniqueOutputs, isUniqueChangeSql } from './unique-sql.ts'

interface StatementOptions {
  /** Leaves out the lock and the update: `after` is then what would be written, before any trigger. */
  readonly preview?: boolean
  /**
   * For a batch that failed, tried apart: each touched column can be left out by row (`without`). The batch is one JSON array
   * of `BatchRow`, and not `batchParameters`, and the results are one JSON text: PL/pgSQL takes the one apart, and keeps the
   * others of each try.
   */
  readonly apart?: boolean
}

/**
 * The statement that writes a batch: a batch in, a row for each row of it out, which `resultReader` reads. No order: to
 * sort them cost more than to find them by their index.
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
 */
export function writeStatement(
  source: Source,
  { preview = false, apart = false }: StatementOptions = {},
): string {
  const cells = source.outputs.map((output, index) => ({ output, index }))
  const locked = lockedRowsSql(source, { preview, apart })
  const results = writeResultsSql(source, { apart })
  const writesNothing = preview || cells.length === 0
  return `
    with ${mayLoseRows(source) ? `"~locked" as materialized ${locked}, ` : ''}
    ${duplicatesSql(source, cells, stepsSql(source, cells, 'different', locked), isCandidateSql(source))}
    "~evaluated" as materialized (${evaluatedRowsSql(source, cells, apart, locked)}
    ), "~written" as (${writesNothing ? previewRowsSql(source) : updateRowsSql(source, cells, apart)}
    )
    ${apart ? `select coalesce(json_agg("~result"), '[]')::text as results from (${results}) as "~result"` : results}`
}

function evaluatedRowsSql(
  source: Source,
  cells: readonly IndexedOutput[],
  apart: boolean,
  locked: string,
): string {
  const anyChanged = [...cells.map(({ index }) => `"~changed${index}"`), 'false'].join(' or ')
  const touched = source.touches.map((touch, n) => {
    const kept = apart ? ` and not coalesce("~without" ? ${quoteLiteral(touch.column)}, false)` : ''
    return `(${anyChanged}) and ${isReachableSql(touch)}${kept} as "~touched${n}"`
  })
  return `
      select ${evaluatedColumns(source, cells).join(',\n             ')}
        ${changedCellsSql(source, cells, locked)}
       ${stepSql('any', [`${anyChanged} as "~changes"`, ...touched])}
       ${stepSql(
         'touch',
         source.touches.map((touch, n) => `${touchValueSql(touch, n)} as "~touch${n}"`),
       )}
       where ${isCandidateSql(source)}`
}

/** FROM, up to which cells are written. */
function changedCellsSql(source: Source, cells: readonly IndexedOutput[], locked: string): string {
  if (!hasUniqueOutputs(source)) return stepsSql(source, cells, 'changed', locked)
  return `${stepsSql(source, cells, 'different', locked)}
       ${stepSql(
         'changed',
         indexedColumns(cells, (cell) => isUniqueChangeSql(cell, cells), 'changed'),
       )}`
}

/** FROM, up to the cells that have a new value. @param last the name of that step and of its columns */
function stepsSql(
  source: Source,
  cells: readonly IndexedOutput[],
  last: 'changed' | 'different',
  locked: string,
): string {
  const columns = listReadColumns(source).map((name, n) => `"~column${n}" as ${quoteName(name)}`)
  if (source.table.isInherited) columns.push('"~table" as tableoid')
  const fitted = cells.filter((cell) => !isFittedByCast(cell))
  const inputs = rowInputsSql(source, { recorded: true })
  return `from ${mayLoseRows(source) ? '' : `${locked} as `}"~locked" cross join lateral (select ${columns.join(', ')}) as t
       ${joinsSql(source)} ${inputs.from}
       ${readsEarlier(source) ? stepSql('earlier', [`${isTakenOverSql(source)} as "~taken over"`]) : ''}
       ${stepSql('writable', [`"~hash" = ${inputs.hash}::text as "~same"`, ...indexedColumns(cells, isWritableSql, 'writable')])}
       ${stepSql(
         'cast',
         cells.map((cell) => `${castValueSql(cell, cells)} as ${castColumn(cell)}`),
       )}
       ${fitted.length > 0 ? stepSql('fitted', indexedColumns(fitted, fitValueSql, 'fitted')) : ''}
       ${stepSql(
         last,
         indexedColumns(cells, (cell) => isChangedSql(cell, cells), last),
       )}`
}

const isWrittenSql = (source: Source): string =>
  `j."~same" and ${mayRepeatKeys(source) ? 'j."~copies" = 1 and ' : ''}j."~changes"`

const isCandidateSql = (source: Source): string => `"~i" is not null and ${belongsSql(source)}`

/**
 * Fenced by OFFSET 0: flattened into the next step, an expression would run once for each reference to it. The row's own
 * number is among the columns, or Postgres would cache each step's results by all of its inputs (Memoize), which took a
 * third of the statement's time and never hit.
 */
const stepSql = (name: string, columns: readonly string[]): string =>
  `cross join lateral (select ${[`"~i" as "~in ${name}"`, ...columns].join(', ')} offset 0) as "~${name}"`

const indexedColumns = (
  cells: readonly IndexedOutput[],
  value: (cell: IndexedOutput) => string,
  name: string,
): string[] => cells.map((cell) => `${value(cell)} as "~${name}${cell.index}"`)

const evaluatedColumns = (source: Source, cells: readonly IndexedOutput[]): string[] => [
  `"~i", "~same", "~changes"`,
  // A sort of wide rows, a window and their copies: a tenth of the statement's time.
  ...(mayRepeatKeys(source) ? ['count(*) over (partition by "~i") as "~copies"'] : []),
  ...(source.table.isInherited ? ['"~table", "~place"'] : []),
  ...source.keyColumns.map((column, n) => `t.${quoteName(column.name)} as "~key${n}"`),
  ...cells.map(({ index }) => `"~fitted${index}", "~changed${index}"`),
  ...source.touches.map((_, n) => `"~touch${n}", "~touched${n}"`),
  ...jsonColumns(source, cells).map(
    ({ written, value }, n) =>
      `${written} as "~changedjson${n}", case when ${written} then ${value} end as "~json${n}"`,
  ),
  ...beforeColumns(source),
  ...(source.ownWrites === undefined ? [] : ['"~inputs"."~given"']),
  `${protectedJsonSql(cells)} as "~protected", ${skippedJsonSql(cells)} as "~skipped"`,
]

interface JsonColumn {
  readonly attribute: string
  readonly written: string
  readonly value: string
}

/** Each json column with written or touched keys, and its new value as a whole. */
function jsonColumns(source: Source, cells: readonly IndexedOutput[]): JsonColumn[] {
  const keys = [
    ...cells.map(({ output, index }) => ({
      cell: output as MappedCell,
      written: `"~changed${index}"`,
      value: `"~fitted${index}"`,
    })),
    ...source.touches.map((touch, n) => ({
      cell: touch as MappedCell,
      written: `"~touched${n}"`,
      value: `coalesce("~touch${n}", 'null')`,
    })),
  ].filter(({ cell }) => cell.path.length > 0)
  return [...Map.groupBy(keys, ({ cell }) => cell.attribute)].map(([attribute, inColumn]) => ({
    attribute,
    written: `(${inColumn.map((key) => key.written).join(' or ')})`,
    value: composeJsonSql(inColumn),
  }))
}

function updateRowsSql(source: Source, cells: readonly IndexedOutput[], apart: boolean): string {
  const plain = cells
    .filter(({ output }) => output.path.length === 0)
    .map(({ output, index }) =>
      assignmentSql(output.attribute, `j."~changed${index}"`, domainCastSql(output, `j."~fitted${index}"`)),
    )
  const inJson = jsonColumns(source, cells).map(({ attribute }, n) =>
    assignmentSql(attribute, `j."~changedjson${n}"`, `j."~json${n}"`),
  )
  const touched = source.touches.flatMap((touch, n) =>
    touch.path.length === 0 ? [touchAssignmentSql(touch, n, apart)] : [],
  )
  const matches = source.keyColumns.map((column, n) => keyEqualsSql(column, `j."~key${n}"`))
  return `
      update ${source.table.sql} as t set ${[...plain, ...inJson, ...touched].join(', ')}
        from "~evaluated" as j
       where ${matches.join(' and ')} and ${placeEqualsSql(source)} and ${isWrittenSql(source)} and ${ALL_EVALUATED}
      returning ${resultSql(source, { preview: false })}`
}

/**
 * SQL: always true, and evaluates all rows before the first is updated. Otherwise they may be locked in turn with the updates:
 * one that a BEFORE trigger of an earlier row has changed is then skipped as locked, and a volatile function reads a table
 * that is half updated.
 */
const ALL_EVALUATED = '(select count(*) from "~evaluated") is not null'

const assignmentSql = (attribute: string, when: string, value: string): string =>
  `${quoteName(attribute)} = case when ${when} then ${value} else t.${quoteName(attribute)} end`

/**
 * Tried apart, a touched column may stay as it is. The cast makes both branches one type; without a length, because that
 * of an explicit cast truncates silently, and the assignment rejects what is too long.
 */
const touchAssignmentSql = (touch: MappedTouch, n: number, apart: boolean): string =>
  apart
    ? assignmentSql(
        touch.attribute,
        `j."~touched${n}"`,
        domainCastSql(touch, `j."~touch${n}"::${wideCast(touch.type)}`),
      )
    : `${quoteName(touch.attribute)} = j."~touch${n}"`

/** A domain must be named, or the row's old value would be checked against it too. */
const domainCastSql = (cell: MappedCell, value: string): string =>
  cell.type.isDomain ? `${value}::${cell.type.name}` : value

const previewRowsSql = (source: Source): string => `
      select ${resultSql(source, { preview: true })}
        from "~evaluated" as j where ${isWrittenSql(source)}`

/** The columns of `~written`. */
const resultSql = (source: Source, { preview }: { readonly preview: boolean }): string =>
  [
    'j."~i"',
    ...[...keptColumns(source), '"~protected"', '"~skipped"'].map((name) => `j.${name}`),
    ...(source.ownWrites === undefined ? [] : ['j."~given"']),
    ...afterColumns(source, { preview }),
    `${preview ? 'null::jsonb' : leftByWriteSql(source)} as "~own writes"`,
  ].join(', ')
