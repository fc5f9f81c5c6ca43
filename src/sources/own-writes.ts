import {
  cellJsonSql,
  currentCellSql,
  holdsLastWrittenSql,
  isBlankValueSql,
  isReachableSql,
  restoredValueSql,
} from './cell.ts'
import type { Column, Table } from './catalogue.ts'
import { keyTextSql } from './key.ts'
import { quoteList, quoteLiteral, quoteName } from './db.ts'
import type { Source, Writer, WrittenCell } from './source-model.ts'

/*
 * What Fillrate wrote is no input: where an input reads a column that a source writes, a cell that still holds what
 * Fillrate left there counts as what it held before. So the hash of the inputs is the same before a write, after it
 * and after its undo, and a value that a person typed since counts.
 *
 * `fillrate.rows.own_writes` has a pair for each such cell: what the write left in it, after the user's triggers,
 * and what the user had given. An output without an entry (the mapping got the input later) is known by
 * `last_written`. Names begin with a tilde, as in `writeStatement`.
 */

/** Set while a source writes, to its name, until the transaction ends: its own triggers need not record the write. */
export const WRITING_SETTING = 'fillrate.writing'

/** SQL: always true, and marks the transaction as one in which the source writes. A sub-select, or it would run once for each row. */
export const isWritingSql = ({ name }: Pick<Source, 'name'>): string =>
  `(select set_config('${WRITING_SETTING}', ${quoteLiteral(name)}, true)) is not null`

/** A readable column of a row as the user gave it. */
interface GivenColumn {
  /** Quoted. */
  readonly name: string
  readonly value: string
  /** Some source writes it. */
  readonly isWritten: boolean
}

/** The columns of a row as the user gave it, over `ownWritesSql`. */
function listGivenColumns(
  columns: readonly Column[],
  writers: readonly Writer[],
  alias: string,
): GivenColumn[] {
  return columns
    .filter((column) => column.canSelect)
    .map(({ name }) => {
      const cells = writers.flatMap((writer, n) =>
        writer.cells.filter((cell) => cell.attribute === name).map((cell) => ({ cell, own: `"~own${n}"` })),
      )
      const isWritten = cells.length > 0
      const value = isWritten ? givenColumnSql(cells, alias) : `${alias}.${quoteName(name)}`
      return { name: quoteName(name), value, isWritten }
    })
}

/** SQL: LATERAL, the row `t` as the user gave it, under the same name. */
export const givenRowSql = (columns: readonly Column[], writers: readonly Writer[]): string => `
          ${ownWritesSql(writers, 't')} cross join lateral (
            select ${listGivenColumns(columns, writers, 't')
              .map(({ name, value }) => `${value} as ${name}`)
              .join(', ')}
          ) as t`

interface OwnCell {
  readonly cell: WrittenCell
  /** The alias of what its writer has stored. */
  readonly own: string
}

function givenColumnSql(cells: readonly OwnCell[], alias: string): string {
  const whole = cells.filter(({ cell }) => cell.path.length === 0)
  const [first] = whole
  if (first !== undefined) {
    const when = whole.map((written) => `when ${isOwnSql(written, alias)} then ${givenValueSql(written)}`)
    return `case ${when.join(' ')} else ${alias}.${quoteName(first.cell.attribute)} end`
  }
  // One pass over the value however many keys are written in it: a CASE a key would double with each. With an empty path,
  // both functions change nothing, but they fail on a scalar, and on a key of an array.
  const column = `${alias}.${quoteName(cells[0]?.cell.attribute ?? '')}`
  const given = cells.reduce((value, written) => {
    const given = `nullif(${givenSql(written)}, 'null')`
    const isReachable = isReachableSql(written.cell, alias)
    const path = (when: string): string =>
      `case when ${when} and ${isOwnSql(written, alias)} and ${isReachable} then ${quoteList(written.cell.path)} else '{}' end`
    return `(jsonb_set(${value}, ${path(`${given} is not null`)}, coalesce(${given}, 'null')) #- ${path(`${given} is null`)})`
  }, column)
  return `case when jsonb_typeof(${column}) = 'object' then ${given} else ${column} end`
}

const leftSql = ({ cell, own }: OwnCell): string =>
  `(${own}."~own writes" -> ${quoteLiteral(cell.column)} -> 0)`
const givenSql = ({ cell, own }: OwnCell): string =>
  `(${own}."~own writes" -> ${quoteLiteral(cell.column)} -> 1)`

/**
 * SQL: whether the cell holds what Fillrate left in it. One that was filled and then erased counts as never filled: as an
 * empty text in place of NULL it would be another input, and be filled with the same value again.
 */
function isOwnSql({ cell, own }: OwnCell, alias: string): string {
  const name = quoteLiteral(cell.column)
  const current = currentCellSql(cell, alias)
  const isKnown = `(${own}."~own writes" ? ${name} or ${own}."~last written" ? ${name})`
  const holds = [leftSql({ cell, own }), `(${own}."~last written" -> ${name})`].map((stored) =>
    holdsLastWrittenSql(cell, stored, current),
  )
  const isErased = cell.isFilled ? [isBlankValueSql(current, cell.fit)] : []
  return `(${isKnown} and (${[...isErased, ...holds].join(' or ')}))`
}

function givenValueSql(written: OwnCell): string {
  const { kind } = written.cell.type.fit
  // An empty text stays one only in a column of text: in a column whose type has changed since, it is no value.
  const nothing = kind === 'text' || kind === 'other' ? ['null'] : ['null', '""']
  const given = nothing.reduce((value, none) => `nullif(${value}, '${none}')`, givenSql(written))
  return restoredValueSql(written.cell, given, 'false')
}

/** SQL: what Fillrate wrote for whatever inputs: otherwise a change of one input would make inputs of what it wrote before. */
const EVER_WRITTEN = `case when earlier_writes is null then last_written else coalesce(last_written, '{}') || (
             select jsonb_object_agg("~e".key, "~e".value -> 1) from jsonb_each(earlier_writes) as "~e") end`

/** SQL for what follows a row in FROM: what each writer has stored about it. Fenced: one index probe each. */
const ownWritesSql = (writers: readonly Writer[], alias: string): string =>
  writers
    .map(
      (writer, n) => `
        left join lateral (
          select ${EVER_WRITTEN} as "~last written", own_writes as "~own writes" from fillrate.rows
           where source = ${quoteLiteral(writer.source)} and key = ${keyTextSql(writer, alias)}
             ${writer.cells.some((cell) => cell.isOutput) ? '' : 'and own_writes is not null'} offset 0
        ) as "~own${n}" on true`,
    )
    .join('')

/**
 * SQL for the rows of a table as the user gave them, in parentheses: what stands in its place where another source reads
 * it. One sub-select a column, so that a join still finds its rows by an index of the table.
 */
export function givenRowsSql({ sql, columns }: Table, writers: readonly Writer[]): string {
  const own = ownWritesSql(writers, '"~x"')
  const values = listGivenColumns(columns, writers, '"~x"').map(({ name, value, isWritten }) =>
    isWritten ? `(select ${value} from (select) as "~one" ${own}) as ${name}` : value,
  )
  return `(select ${values.join(', ')} from ${sql} as "~x")`
}

/** The cells whose values are recorded when a source writes to the table: each once. */
export const recordedCells = (writers: readonly Writer[]): readonly WrittenCell[] => [
  ...new Map(writers.flatMap((writer) => writer.cells).map((cell) => [cell.column, cell])).values(),
]

/** SQL for the recorded cells of a row, as a JSON object. */
export function recordedJsonSql(cells: readonly WrittenCell[], alias = 't'): string {
  if (cells.length === 0) return `'{}'::jsonb`
  const values = cells.map(
    (cell) =>
      `jsonb_build_object(${quoteLiteral(cell.column)}, coalesce(${cellJsonSql(cell, alias)}, 'null'))`,
  )
  return `(${values.join(' || ')})`
}

/** SQL for `own_writes`: the recorded cells that a write has left otherwise than the user gave them. NULL without them. */
export const ownWritesJsonSql = (left: string, given: string): string => `
             case when ${given} is not null then (
               select coalesce(jsonb_object_agg(l.key, jsonb_build_array(l.value, ${given} -> l.key)), '{}')
                 from jsonb_each(${left}) as l where l.value is distinct from ${given} -> l.key) end`

/** SQL for `own_writes` in RETURNING: `t` is the row as the write left it, `j."~given"` as the user gave it. */
export const leftByWriteSql = ({ ownWrites }: Source): string =>
  ownWrites === undefined
    ? 'null::jsonb'
    : ownWritesJsonSql(recordedJsonSql(recordedCells(ownWrites.writers)), 'j."~given"')
