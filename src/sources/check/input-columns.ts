import type { InputName } from '../../domain/mapping.ts'
import { nameIn, type Token, tokenizeCode } from '../expression.ts'

interface InputColumn {
  readonly input: InputName
  readonly column: string
  /** Keys inside json columns that the expression names: `t.attributes ->> 'email'`. */
  readonly keys: readonly string[]
}

/**
 * The columns of the table that inputs are read from: `t.email`, `lower(trim(t.email))`, `t.attributes ->> 'email'`,
 * `concat_ws(' ', t.first_name, t.last_name)`. None of an expression with a sub-select, whose names may be another
 * table's.
 */
export function listInputColumns(
  inputs: Readonly<Partial<Record<InputName, string>>>,
  columns: readonly string[],
): InputColumn[] {
  return Object.entries(inputs).flatMap(([input, expression]) => {
    const tokens = tokenizeCode(expression)
    if (tokens.some((token) => token.kind === 'word' && token.text.toLowerCase() === 'select')) return []
    const keys = readKeys(tokens)
    return [...new Set(readColumns(tokens, columns))].map((column) => ({
      input: input as InputName,
      column,
      keys,
    }))
  })
}

/** Every column of the table that is named, in order. */
function readColumns(tokens: readonly Token[], columns: readonly string[]): string[] {
  return tokens.flatMap((token, i) => {
    const name = nameIn(token)
    const [before, after] = [tokens[i - 1]?.text, tokens[i + 1]?.text]
    if (name === null || !columns.includes(name) || after === '.') return []
    if (before === '.') return nameIn(tokens[i - 2]) === 't' ? [name] : []
    return after === '(' || before === ':' ? [] : [name]
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
