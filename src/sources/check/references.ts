import { nameIn, type Token, tokenizeCode } from '../expression.ts'

/** A name in an expression; without a schema, the search path decides. */
export interface SqlReference {
  readonly kind: 'column' | 'table' | 'function' | 'sequence'
  readonly schema: string | null
  readonly name: string
}

/** Words after which a table is named. */
const TABLE_WORDS = new Set(['from', 'join', 'only'])
const SEQUENCE_FUNCTIONS = new Set(['nextval', 'currval', 'setval'])

/**
 * The columns of `t`, tables, functions and sequences that an expression names. Reads tokens, not grammar: a name that is
 * something else (an alias, a common table expression) has no counterpart in the catalogue, where the names are looked up.
 */
export function listReferences(expression: string): SqlReference[] {
  const tokens = tokenizeCode(expression)
  const references: SqlReference[] = []
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]
    if (token?.kind === 'string' && isSequenceArgument(tokens, at)) {
      const parts = tokenizeCode(token.text.slice(1, -1)).flatMap((part) => nameIn(part) ?? [])
      references.push({ kind: 'sequence', schema: parts.at(-2) ?? null, name: parts.at(-1) ?? '' })
    }
    if (nameIn(token) === null || tokens[at - 1]?.text === '.') continue
    const path = readPath(tokens, at)
    const end = at + 2 * path.length - 1
    const name = path.at(-1) ?? ''
    const schema = path.at(-2) ?? null
    if (TABLE_WORDS.has(tokens[at - 1]?.text.toLowerCase() ?? ''))
      references.push({ kind: 'table', schema, name })
    else if (tokens[end]?.text === '(') references.push({ kind: 'function', schema, name })
    else if (path.length === 1 || path[0] === 't') references.push({ kind: 'column', schema: null, name })
    at = end - 1
  }
  return references
}

/** `crm.accounts` → its parts. */
function readPath(tokens: readonly Token[], start: number): string[] {
  const path: string[] = []
  for (let at = start; ; at += 2) {
    const name = nameIn(tokens[at])
    if (name === null) break
    path.push(name)
    if (tokens[at + 1]?.text !== '.') break
  }
  return path
}

const isSequenceArgument = (tokens: readonly Token[], at: number): boolean =>
  tokens[at - 1]?.text === '(' && SEQUENCE_FUNCTIONS.has(tokens[at - 2]?.text.toLowerCase() ?? '')
