import type { InputName } from '../../domain/mapping.ts'
import { isFiller, type Token, tokenize } from '../expression.ts'

interface DirectInput {
  readonly input: InputName
  readonly column: string
  /** Keys inside a json column: `t.attributes ->> 'email'`. */
  readonly path: readonly string[]
}

/**
 * Inputs that are read from one column of the table and nothing else, even with functions around it: `t.email`,
 * `lower(trim(t.email))`, `t.attributes ->> 'email'`. Not inputs of several columns: filling one of these is
 * reasonable, and the row is then looked up again with better inputs.
 */
export function directInputColumns(
  inputs: Readonly<Partial<Record<InputName, string>>>,
  columns: readonly string[],
): DirectInput[] {
  return Object.entries(inputs).flatMap(([input, expression]) => {
    const tokens = tokenize(expression).tokens.filter((token) => !isFiller(token))
    const read = readColumns(tokens, columns)
    const [column] = read
    if (column === undefined || column === null || new Set(read).size !== 1) return []
    return [{ input: input as InputName, column, path: readKeys(tokens) }]
  })
}

/** Every column named, in order; null for one of another table. */
function readColumns(tokens: readonly Token[], columns: readonly string[]): Array<string | null> {
  return tokens.flatMap((token, i) => {
    if (token.kind !== 'word' && token.kind !== 'quoted') return []
    const [before, after] = [tokens[i - 1]?.text, tokens[i + 1]?.text]
    if (after === '.') return []
    const name = columnName(token)
    if (before === '.') return [columnName(tokens[i - 2]) === 't' && columns.includes(name) ? name : null]
    if (after === '(' || before === ':') return []
    return columns.includes(name) ? [name] : []
  })
}

function readKeys(tokens: readonly Token[]): string[] {
  const keys = tokens.map((token, i) => {
    const arrow = `${tokens[i - 3]?.text ?? ''}${tokens[i - 2]?.text ?? ''}${tokens[i - 1]?.text ?? ''}`
    return token.kind === 'string' && /->>?$/.test(arrow)
      ? token.text.slice(1, -1).replaceAll("''", "'")
      : null
  })
  return keys.filter((key) => key !== null)
}

function columnName(token: Token | undefined): string {
  if (token?.kind === 'quoted') return token.text.slice(1, -1).replaceAll('""', '"')
  return token?.text.toLowerCase() ?? ''
}
