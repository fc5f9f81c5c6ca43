import type { Table } from './catalogue.ts'
import { nameIn, type Token, tokenizeCode } from './expression.ts'
import { quoteName } from './quote.ts'

/** Words after which FROM's list of tables has ended. */
const END_OF_FROM = new Set(
  'where group order having limit offset fetch for window union intersect except returning select set values'.split(
    ' ',
  ),
)
/** Words that may follow a table and are no alias. */
const NO_ALIAS = new Set([
  ...END_OF_FROM,
  ...'on using join left right inner full cross natural tablesample as'.split(' '),
])

/**
 * Puts a sub-select in the place of a table wherever an SQL text reads it: after FROM, JOIN, or a comma between them. The
 * alias stays; a table without one gets its own name.
 * @param replacement SQL in parentheses
 * @param isJoins the text is what follows a table in FROM
 * @returns null if the text does not read the table
 */
export function replaceTable(
  text: string,
  table: Pick<Table, 'schema' | 'name' | 'isVisible'>,
  replacement: string,
  { isJoins = false } = {},
): string | null {
  const code = tokenizeCode(text)
  // An unqualified name may be that of a common table expression.
  const isNamed = (parts: readonly string[]): boolean =>
    parts.at(-1) === table.name &&
    (parts.length === 1
      ? table.isVisible && !code.some((token) => nameIn(token) === 'with')
      : parts.at(-2) === table.schema)
  const depths: { isFrom: boolean }[] = [{ isFrom: isJoins }]
  const pieces: string[] = []
  let copied = 0
  let expectsTable = false
  for (let i = 0; i < code.length; i++) {
    const token = code[i] as Token
    const depth = depths.at(-1) ?? { isFrom: false }
    const word = token.kind === 'word' ? token.text.toLowerCase() : null
    if (token.text === '(') {
      depths.push({ isFrom: expectsTable })
      continue
    }
    if (token.text === ')') depths.pop()
    if (word === 'from' || word === 'join' || (token.text === ',' && depth.isFrom)) {
      if (word === 'from') depth.isFrom = true
      expectsTable = true
      continue
    }
    if (word !== null && END_OF_FROM.has(word)) depth.isFrom = false
    if (word === 'lateral') continue
    if (expectsTable && nameIn(token) !== null) {
      const first = i
      while (code[i + 1]?.text === '.' && nameIn(code[i + 2]) !== null) i += 2
      const parts = code.slice(first, i + 1).flatMap((part) => nameIn(part) ?? [])
      const next = code[i + 1]
      if (isNamed(parts) && next?.text !== '(' && next?.text.toLowerCase() !== 'tablesample') {
        const last = code[i] as Token
        pieces.push(
          text.slice(copied, token.start),
          replacement,
          hasAlias(next) ? '' : ` as ${quoteName(table.name)}`,
        )
        copied = last.start + last.text.length
      }
    }
    expectsTable = false
  }
  return copied === 0 ? null : pieces.join('') + text.slice(copied)
}

const hasAlias = (next: Token | undefined): boolean =>
  next?.kind === 'quoted' ||
  (next?.kind === 'word' && (next.text.toLowerCase() === 'as' || !NO_ALIAS.has(next.text.toLowerCase())))
