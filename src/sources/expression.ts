import { didYouMean, listed } from './near.ts'
import { scan, type Token } from './scan.ts'

/** What is wrong with an expression, and at which index of its text. */
export interface ExpressionFault {
  readonly message: string
  readonly at: number
}

/** An expression ready to stand in a statement. */
interface Rendered {
  readonly sql: string
  /** Index in the configured text for an index in `sql`. */
  readonly origin: (index: number) => number
}

const closers: Readonly<Record<string, string>> = { ')': '(', ']': '[' }

/**
 * Looks at an SQL expression without the database: whether it can leave the parentheses that it is put in, and
 * whether it uses only the placeholders that are given here. What it means is the database's to say.
 * @param placeholders names that may follow a `$`, such as `value`
 */
export function faultIn(text: string, placeholders: readonly string[]): ExpressionFault | null {
  const { tokens, unfinished } = scan(text)
  const open: Token[] = []
  for (const token of tokens) {
    if (token.kind === 'placeholder') {
      const name = token.text.slice(1)
      if (placeholders.includes(name)) continue
      return { message: unknownPlaceholder(token.text, placeholders), at: token.start }
    }
    if (token.kind !== 'symbol') continue
    if (token.text === ';') return { message: 'a semicolon: one expression is expected', at: token.start }
    if (token.text === '(' || token.text === '[') open.push(token)
    else if (token.text in closers && open.pop()?.text !== closers[token.text])
      return { message: `'${token.text}' closes nothing that this text has opened`, at: token.start }
  }
  if (unfinished)
    return { message: `${unfinishedName(unfinished.text)} is never closed`, at: unfinished.start }
  const left = open.at(-1)
  if (left) return { message: `'${left.text}' is never closed`, at: left.start }
  if (tokens.every(isFiller)) return { message: 'nothing but white space or comments', at: 0 }
  return null
}

/** Words that would end the FROM clause: with one of them, joins would become another statement. */
const clauses = new Set(
  'where group order having limit offset fetch for window union intersect except returning set'.split(' '),
)

/** Looks at `joins`: like an expression, and nothing in it may end the FROM clause that it belongs to. */
export function faultInJoins(text: string): ExpressionFault | null {
  const fault = faultIn(text, [])
  if (fault) return fault
  let depth = 0
  for (const token of scan(text).tokens) {
    if (token.text === '(') depth++
    else if (token.text === ')') depth--
    else if (depth === 0 && token.kind === 'word' && clauses.has(token.text.toLowerCase()))
      return { message: `'${token.text}' does not belong to a join`, at: token.start }
  }
  return null
}

/**
 * The expression with its placeholders replaced where they are code, and not where they stand in a string, a
 * quoted name or a comment. Comments become blanks, so that none can swallow what follows the expression.
 * @param references what each placeholder stands for, in SQL: a reference to the batch, never a value
 */
export function render(text: string, references: Readonly<Record<string, string>> = {}): Rendered {
  const pieces: Array<{ readonly from: number; readonly start: number; readonly length: number }> = []
  let sql = ''
  for (const token of scan(text).tokens) {
    const reference = token.kind === 'placeholder' ? references[token.text.slice(1)] : undefined
    const piece = reference ?? (token.kind === 'comment' ? blanks(token.text) : token.text)
    pieces.push({
      from: sql.length,
      start: token.start,
      length: reference === undefined ? token.text.length : 0,
    })
    sql += piece
  }
  return {
    sql,
    origin: (index) => {
      const piece = pieces.findLast((piece) => piece.from <= index)
      return piece ? piece.start + Math.min(index - piece.from, Math.max(0, piece.length - 1)) : 0
    },
  }
}

/** The line of a text that holds a fault, with a caret under the place. */
export function withCaret(text: string, at: number): string {
  const start = text.lastIndexOf('\n', at - 1) + 1
  const end = text.indexOf('\n', at)
  const line = text.slice(start, end === -1 ? undefined : end)
  const before = line.slice(0, at - start).replaceAll(/[^\t]/gu, ' ')
  return `${line}\n${before}^`
}

export const isFiller = (token: Token): boolean => token.kind === 'space' || token.kind === 'comment'

const blanks = (text: string): string => text.replaceAll(/[^\n\r]/g, ' ')

function unknownPlaceholder(text: string, placeholders: readonly string[]): string {
  const all = placeholders.map((name) => `$${name}`)
  if (all.length === 0) return `'${text}': no placeholder can stand here`
  return `'${text}' is not one of ${listed(all)}.${didYouMean(text, all)}`
}

function unfinishedName(text: string): string {
  if (text.startsWith('/*')) return 'a comment'
  return text.includes('"') && !text.includes("'") ? 'a quoted name' : 'a string'
}
