import type { Column } from '../catalogue.ts'
import { isFiller, type Token, tokenize } from '../expression.ts'
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
  const belongs = findNamedColumns(mapping.where ?? '', table).filter((column) => !written.has(column.name))
  const names = new Set([...read, ...belongs].map((column) => column.name))
  const columns = table.columns.filter((column) => names.has(column.name))
  // The columns behind a generated column are not known here, and a virtual one is not in a trigger's transition tables.
  return columns.some((column) => column.isGenerated)
    ? table.columns.filter((column) => !column.isGenerated && !written.has(column.name))
    : columns
}

type ColumnList = { readonly columns: readonly Column[] }

/** The columns that an SQL text may refer to: all of them if it refers to the whole row. */
export function findNamedColumns(text: string, { columns }: ColumnList): readonly Column[] {
  const tokens = tokenize(text).tokens.filter((token) => !isFiller(token))
  const found: Column[] = []
  for (const [at, token] of tokens.entries()) {
    const name = columnNameIn(token)
    if (name === null) continue
    const qualifier = tokens[at - 1]?.text === '.' ? columnNameIn(tokens[at - 2]) : null
    if (name === 't' && qualifier === null) {
      const part = tokens[at + 1]?.text === '.' ? columnNameIn(tokens[at + 2]) : null
      // `t`, `t.*`, and `t.f` for a function of the row.
      if (part === null || !columns.some((column) => column.name === part)) return columns
    }
    if (qualifier !== null && qualifier !== 't') continue
    found.push(...columns.filter((column) => column.name === name))
  }
  return found
}

/** A name as Postgres reads it: folded to lower case without quotes. */
export function columnNameIn(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase()
  if (token?.kind === 'quoted') return token.text.slice(1, -1).replaceAll('""', '"')
  return null
}
