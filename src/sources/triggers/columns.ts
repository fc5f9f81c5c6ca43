import type { Column } from '../catalogue.ts'
import { nameIn, tokenizeCode, toWhereText } from '../expression.ts'
import type { Source } from '../source-model.ts'

/**
 * The columns of a source's table whose change may change a row's lookup, or whether the row belongs to the source. Read
 * from the expressions: a column too many costs a check of the row, one too few would miss its changes. A column that is
 * only in `where` and is written by Fillrate is left out, or each of its own writes would be checked again.
 */
export function listFollowedColumns(
  source: Pick<Source, 'mapping' | 'table' | 'outputs' | 'touches'>,
): Column[] {
  const { mapping, table, outputs, touches } = source
  const written = new Set([...outputs, ...touches].map((cell) => cell.attribute))
  const read = [...Object.values(mapping.inputs), mapping.joins ?? ''].flatMap((text) =>
    findNamedColumns(text, table),
  )
  const belongs = findNamedColumns(toWhereText(mapping), table).filter((column) => !written.has(column.name))
  const names = new Set([...read, ...belongs].map((column) => column.name))
  const columns = table.columns.filter((column) => names.has(column.name))
  // The columns behind a generated column are not known here, and a virtual one is not in a trigger's transition tables.
  return columns.some((column) => column.isGenerated)
    ? table.columns.filter((column) => !column.isGenerated && !written.has(column.name))
    : columns
}

/**
 * The columns of a source's table that its statements read: no other one is named in them, because a user may drop it while
 * a run is under way.
 */
export function listReadColumns(source: Source): readonly string[] {
  const { mapping, table, keyColumns, outputs, touches, ownWrites } = source
  const writers =
    ownWrites === undefined ? [] : [...ownWrites.writers, ...ownWrites.readFrom, ownWrites.where]
  const cells = [...outputs, ...touches, ...writers.flatMap((writer) => writer.cells)]
  const texts = [
    ...Object.values(mapping.inputs),
    ...mapping.where,
    ...outputs.map((output) => output.mapping.sql),
    ...touches.map((touch) => touch.expression),
  ]
  const names = new Set([
    ...[keyColumns, ...writers.map((writer) => writer.keyColumns)].flat().map((column) => column.name),
    ...cells.map((cell) => cell.attribute),
    ...texts.flatMap((text) => findNamedColumns(text ?? '', table)).map((column) => column.name),
    ...findJoinColumns(mapping.joins ?? '', table).map((column) => column.name),
  ])
  return table.columns.filter(({ name, canSelect }) => canSelect && names.has(name)).map(({ name }) => name)
}

/** The same of a text that follows a table in FROM: a natural join reads whatever columns there are. */
const findJoinColumns = (joins: string, table: ColumnList): readonly Column[] =>
  tokenizeCode(joins).some((token) => nameIn(token) === 'natural')
    ? table.columns
    : findNamedColumns(joins, table)

type ColumnList = { readonly columns: readonly Column[] }

/** The columns that an SQL text may refer to: all of them if it refers to the whole row. */
export function findNamedColumns(text: string, { columns }: ColumnList): readonly Column[] {
  const tokens = tokenizeCode(text)
  const found = new Set<string>()
  for (const [at, token] of tokens.entries()) {
    const name = nameIn(token)
    if (name === null) continue
    // U&"…" has escapes.
    if (token.kind === 'quoted' && !token.text.startsWith('"')) return columns
    const qualifier = tokens[at - 1]?.text === '.' ? nameIn(tokens[at - 2]) : null
    if (name === 't' && qualifier === null) {
      const part = tokens[at + 1]?.text === '.' ? nameIn(tokens[at + 2]) : null
      // `t`, `t.*`, and `t.f` for a function of the row.
      if (part === null || !columns.some((column) => column.name === part)) return columns
    }
    if (qualifier !== null && qualifier !== 't') continue
    found.add(name)
  }
  return columns.filter((column) => found.has(column.name))
}
