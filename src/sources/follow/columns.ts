import type { Column } from '../catalogue.ts'
import { isFiller } from '../expression.ts'
import type { Source } from '../mapped.ts'
import { scan, type Token } from '../scan.ts'

/**
 * The columns of a source's table whose change may change what is asked about a row, or whether it belongs to the
 * source. Read off the expressions: a column too many costs a look at a row, one too few would miss it. What is only
 * in `where` and is written by Fillrate itself is left out, or each of its own writes would be looked at again.
 */
export function followedColumns(source: Pick<Source, 'mapping' | 'table' | 'outputs' | 'touches'>): Column[] {
  const { mapping, table, outputs, touches } = source
  const written = new Set([...outputs, ...touches].map((cell) => cell.attribute))
  const asked = [...Object.values(mapping.inputs), mapping.joins ?? ''].flatMap((text) => named(text, table))
  const belongs = named(mapping.where ?? '', table).filter((column) => !written.has(column.name))
  const names = new Set([...asked, ...belongs].map((column) => column.name))
  const columns = table.columns.filter((column) => names.has(column.name))
  // What a generated column is made of is not told here, and a virtual one is not in a trigger's tables.
  return columns.some((column) => column.isGenerated)
    ? table.columns.filter((column) => !column.isGenerated && !written.has(column.name))
    : columns
}

type Columns = { readonly columns: readonly Column[] }

/** The columns that an SQL text may mean: all of them where it names the row as a whole. */
function named(text: string, { columns }: Columns): readonly Column[] {
  const tokens = scan(text).tokens.filter((token) => !isFiller(token))
  const found: Column[] = []
  for (const [at, token] of tokens.entries()) {
    const name = nameIn(token)
    if (name === null) continue
    const qualifier = tokens[at - 1]?.text === '.' ? nameIn(tokens[at - 2]) : null
    if (name === 't' && qualifier === null) {
      const part = tokens[at + 1]?.text === '.' ? nameIn(tokens[at + 2]) : null
      // `t`, `t.*`, and `t.f` for a function of the row.
      if (part === null || !columns.some((column) => column.name === part)) return columns
    }
    if (qualifier !== null && qualifier !== 't') continue
    found.push(...columns.filter((column) => column.name === name))
  }
  return found
}

/** A name as Postgres reads it: without quotes it is folded to lower case. */
function nameIn(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase()
  if (token?.kind === 'quoted') return token.text.slice(1, -1).replaceAll('""', '"')
  return null
}
