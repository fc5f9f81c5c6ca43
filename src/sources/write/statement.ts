import { cellJsonSql, valueJsonSql } from '../cell.ts'
import { eligibleSql, inputHashSql, joinsSql } from '../inputs.ts'
import { composeJsonSql } from './json-cells.ts'
import { keyEqualsSql, keyMatchesSql, keyOrderSql } from '../key.ts'
import type { MappedCell, Source } from '../source-model.ts'
import {
  type IndexedOutput,
  castValueSql,
  fitValueSql,
  hasValueSql,
  isChangedSql,
  isTouchedSql,
  isWritableSql,
  touchValueSql,
} from './cell-sql.ts'
import { quoteName } from '../quote.ts'
import { afterJsonSql, beforeJsonSql, protectedJsonSql, skippedJsonSql } from './result-sql.ts'

/** One row of the statement's `$1`, a JSON array of them. */
export interface BatchRow {
  /** Its place in the batch. */
  readonly i: number
  readonly key: string
  readonly hash: string
  /** Output column to value. */
  readonly v: Readonly<Record<string, unknown>>
  /** Output column to what Fillrate wrote last. */
  readonly w: Readonly<Record<string, unknown>>
  /** The record's confidence. */
  readonly c: number | null
}

/**
 * The statement that writes a batch: one parameter in, one jsonb array of `Told` out.
 *
 * 1. `~locked` locks the rows, in key order, and reads them as they are once locked. NO KEY, so that rows that refer
 *    to them can still be inserted meanwhile. SKIP LOCKED: a row that another transaction has locked is reported as
 *    such and left for later. Waiting for it would hold the locks on all rows before it, for as long as a person's
 *    transaction stays open, and could end in a deadlock of which the person is the victim.
 * 2. `~judged` builds everything on the locked versions: the joins, the hash of the inputs, the policies, the new
 *    values. The names `t` and those of the joins mean what they mean in the configuration; all others begin with
 *    a tilde, so that no table or column of the user's can be mistaken for one of them.
 * 3. `~written` updates the rows in which something changes, and no others.
 *
 * @param rehearse leaves out the lock and the third step: `after` then tells what would be written, before any trigger
 */
export function writeStatement(source: Source, { rehearse = false } = {}): string {
  const cells = source.outputs.map((output, n) => ({ output, n }))
  const columns = readableColumns(source).map((name, n) => `t.${quoteName(name)} as "~column${n}"`)
  const isIdle = rehearse || cells.length === 0
  return `
    with "~batch" as (
      select i as "~row", key as "~key", hash as "~hash", v as "~v", w as "~w", c as "~c"
        from jsonb_to_recordset($1::jsonb) as b(i int, key text, hash text, v jsonb, w jsonb, c double precision)
    ), "~locked" as materialized (
      select "~row" as "~i", ${columns.join(', ')}
        from "~batch" join ${source.table.sql} as t on ${keyMatchesSql(source, '"~batch"."~key"')}
       order by ${keyOrderSql(source)} ${rehearse ? '' : 'for no key update of t skip locked'}
    ), "~judged" as materialized (${evaluatedRowsSql(source, cells)}
    ), "~written" as (${isIdle ? previewRowsSql(source, cells) : updateRowsSql(source, cells)}
    )
    select coalesce(json_agg(json_build_object(
             'i', "~row", 'found', j."~i" is not null, 'locked', ${isLockedElsewhereSql(source)}, 'copies', "~copies", 'same', "~same",
             'changes', "~changes", 'written', w."~i" is not null,
             'before', case when w."~i" is not null then "~before" end, 'after', "~after",
             'kept', "~kept", 'skipped', "~skipped") order by "~row"), '[]')::text as told
      from "~batch"
      left join (select distinct on ("~i") * from "~judged" order by "~i") as j on j."~i" = "~row"
      left join "~written" as w on w."~i" = "~row"`
}

function evaluatedRowsSql(source: Source, cells: readonly IndexedOutput[]): string {
  const columns = readableColumns(source).map((name, n) => `"~column${n}" as ${quoteName(name)}`)
  const given = cells.flatMap((cell) => [
    `${hasValueSql(cell)} as "~given${cell.n}"`,
    `${isWritableSql(cell)} as "~open${cell.n}"`,
  ])
  const any = [...cells.map(({ n }) => `"~set${n}"`), 'false'].join(' or ')
  return `
      select ${evaluatedColumns(source, cells).join(',\n             ')}
        from "~locked" join "~batch" on "~row" = "~i"
       cross join lateral (select ${columns.join(', ')}) as t
       ${joinsSql(source)}
       ${stepSql2('opened', [`"~hash" = ${inputHashSql(source)} as "~same"`, ...given])}
       ${stepSql2(
         'ready',
         indexedColumns(cells, ({ n }) => `"~given${n}" and "~open${n}"`, 'ready'),
       )}
       ${stepSql2(
         'made',
         indexedColumns(cells, (cell) => castValueSql(cell, cells), 'made'),
       )}
       ${stepSql2('new', indexedColumns(cells, fitValueSql, 'new'))}
       ${stepSql2(
         'set',
         indexedColumns(cells, (cell) => isChangedSql(cell, cells), 'set'),
       )}
       ${stepSql2('any', [`${any} as "~changes"`])}
       ${stepSql2(
         'touch',
         source.touches.map((touch, n) => `${touchValueSql(touch)} as "~touch${n}"`),
       )}
       where "~i" is not null and ${eligibleSql(source)}`
}

/**
 * Fenced by OFFSET 0: flattened into the next step, an expression would run once for each time it is mentioned. The
 * row's own number is among the columns, or Postgres would remember each step's results by all that goes into it
 * (Memoize), which took a third of the statement's time and never hit.
 */
const stepSql2 = (name: string, columns: readonly string[]): string =>
  `cross join lateral (select ${[`"~i" as "~in ${name}"`, ...columns].join(', ')} offset 0) as "~${name}"`

const indexedColumns = (
  cells: readonly IndexedOutput[],
  value: (cell: IndexedOutput) => string,
  name: string,
): string[] => cells.map((cell) => `${value(cell)} as "~${name}${cell.n}"`)

const evaluatedColumns = (source: Source, cells: readonly IndexedOutput[]): string[] => [
  `"~i", count(*) over (partition by "~i") as "~copies", "~same", "~changes"`,
  ...source.keyColumns.map((column, n) => `t.${quoteName(column.name)} as "~key${n}"`),
  ...cells.map(({ n }) => `"~new${n}", "~set${n}"`),
  ...source.touches.map((touch, n) => `"~touch${n}", ${isTouchedSql(touch)} as "~touched${n}"`),
  ...jsonColumns(source, cells).map(
    ({ written, value }, n) =>
      `${written} as "~setjson${n}", case when ${written} then ${value} end as "~json${n}"`,
  ),
  `${beforeJsonSql(source, cells)} as "~before"`,
  `${protectedJsonSql(cells)} as "~kept", ${skippedJsonSql(cells)} as "~skipped"`,
]

interface JsonColumn {
  readonly attribute: string
  readonly written: string
  readonly value: string
}

/** Each json column of which keys are written or touched, with its new value as a whole. */
function jsonColumns(source: Source, cells: readonly IndexedOutput[]): JsonColumn[] {
  const keys = [
    ...cells.map(({ output, n }) => ({
      cell: output as MappedCell,
      written: `"~set${n}"`,
      value: `"~new${n}"`,
    })),
    ...source.touches.map((touch, n) => ({
      cell: touch as MappedCell,
      written: isTouchedSql(touch),
      value: `coalesce("~touch${n}", 'null')`,
    })),
  ].filter(({ cell }) => cell.path.length > 0)
  return [...Map.groupBy(keys, ({ cell }) => cell.attribute)].map(([attribute, inColumn]) => ({
    attribute,
    written: `(${inColumn.map((key) => key.written).join(' or ')})`,
    value: composeJsonSql(inColumn),
  }))
}

function updateRowsSql(source: Source, cells: readonly IndexedOutput[]): string {
  const plain = cells
    .filter(({ output }) => output.path.length === 0)
    .map(({ output, n }) =>
      assignmentSql(output.attribute, `j."~set${n}"`, domainCastSql(output, `j."~new${n}"`)),
    )
  const inJson = jsonColumns(source, cells).map(({ attribute }, n) =>
    assignmentSql(attribute, `j."~setjson${n}"`, `j."~json${n}"`),
  )
  const touched = source.touches.flatMap((touch, n) =>
    touch.path.length === 0 ? [`${quoteName(touch.attribute)} = j."~touch${n}"`] : [],
  )
  const matches = source.keyColumns.map((column, n) => keyEqualsSql(column, `j."~key${n}"`))
  const after = afterJsonSql(source, cells, (cell) => `coalesce(${cellJsonSql(cell)}, 'null')`)
  return `
      update ${source.table.sql} as t set ${[...plain, ...inJson, ...touched].join(', ')}
        from "~judged" as j
       where ${matches.join(' and ')} and j."~same" and j."~copies" = 1 and j."~changes"
      returning j."~i", ${after} as "~after"`
}

const assignmentSql = (attribute: string, when: string, value: string): string =>
  `${quoteName(attribute)} = case when ${when} then ${value} else t.${quoteName(attribute)} end`

/** A domain must be named, or the row's old value would be checked against it as well. */
const domainCastSql = (cell: MappedCell, value: string): string =>
  cell.type.isDomain ? `${value}::${cell.type.name}` : value

function previewRowsSql(source: Source, cells: readonly IndexedOutput[]): string {
  const after = afterJsonSql(
    source,
    cells,
    (cell, column) => `coalesce(${valueJsonSql(cell, column)}, 'null')`,
  )
  return `
      select j."~i", ${after} as "~after"
        from "~judged" as j where j."~same" and j."~copies" = 1 and j."~changes"`
}

/**
 * Whether a row is there that was not locked. Only looked up for the few rows that `~judged` lacks, each by its key:
 * without OFFSET 0 the planner may read the whole table for it.
 */
const isLockedElsewhereSql = (source: Source): string => `
             j."~i" is null and not exists (select from "~locked" as l where l."~i" = "~row")
             and exists (select from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')} offset 0)`

/** Columns that this role may read, by name: a role need not be granted all of them. */
const readableColumns = (source: Source): string[] =>
  source.table.columns.filter((column) => column.canSelect).map((column) => column.name)
