import type { SourceMapping } from '../domain/mapping.ts'
import { listNames, suggestion } from '../util/text.ts'

/** An error in an expression, at an index of its text. */
interface ExpressionFault {
  readonly message: string
  readonly at: number
}

/** An expression ready to be put into a statement. */
interface RenderedExpression {
  readonly sql: string
  /** Maps an index in `sql` to the index in the configured text. */
  readonly origin: (index: number) => number
}

const CLOSERS: Readonly<Record<string, string>> = { ')': '(', ']': '[' }

/**
 * Checks an SQL expression without the database: whether it could leave the parentheses that it is put in, and whether
 * it uses only the given placeholders. Its meaning is left to the database.
 * @param placeholders names that may follow a `$`, such as `value`
 */
export function findFault(text: string, placeholders: readonly string[]): ExpressionFault | null {
  const { tokens, unfinished } = tokenize(text)
  const open: Token[] = []
  for (const token of tokens) {
    if (token.kind === 'placeholder') {
      const name = token.text.slice(1)
      if (placeholders.includes(name)) continue
      return { message: describePlaceholder(token.text, placeholders), at: token.start }
    }
    if (token.kind !== 'symbol') continue
    if (token.text === ';') return { message: 'a semicolon: one expression is expected', at: token.start }
    if (token.text === '(' || token.text === '[') open.push(token)
    else if (token.text in CLOSERS && open.pop()?.text !== CLOSERS[token.text])
      return { message: `'${token.text}' closes nothing that this text has opened`, at: token.start }
  }
  if (unfinished)
    return { message: 'a string, a quoted name or a comment is never closed', at: unfinished.start }
  const left = open.at(-1)
  if (left) return { message: `'${left.text}' is never closed`, at: left.start }
  if (tokens.every(isFiller)) return { message: 'nothing but white space or comments', at: 0 }
  return null
}

/** The conditions of `where`, each with its place in the source: `where`, or `where[1]` of several. */
export const listConditions = ({ where }: Pick<SourceMapping, 'where'>): (readonly [string, string])[] =>
  where.map((text, index) => [where.length === 1 ? 'where' : `where[${index}]`, text])

/** The conditions of `where` as one SQL text; empty: there are none. */
export const toWhereText = ({ where }: Pick<SourceMapping, 'where'>): string =>
  where.map((text) => `(${text}\n)`).join(' and ')

/** Words that would end the FROM clause: with one of them, `joins` would become another statement. */
const CLAUSE_WORDS = new Set(
  'where group order having limit offset fetch for window union intersect except returning set'.split(' '),
)

/** Checks `joins`: as an expression, and for words that would end the FROM clause. */
export function findJoinFault(text: string): ExpressionFault | null {
  const fault = findFault(text, [])
  if (fault) return fault
  let depth = 0
  for (const token of tokenize(text).tokens) {
    if (token.text === '(') depth++
    else if (token.text === ')') depth--
    else if (depth === 0 && token.kind === 'word' && CLAUSE_WORDS.has(token.text.toLowerCase()))
      return { message: `'${token.text}' does not belong to a join`, at: token.start }
  }
  return null
}

/**
 * Replaces an expression's placeholders where they are code, not inside a string, a quoted name or a comment. Comments
 * become blanks, so that none can swallow what follows the expression.
 * @param references SQL for each placeholder: a reference to the batch, never a value
 */
export function renderExpression(
  text: string,
  references: Readonly<Record<string, string>> = {},
): RenderedExpression {
  const pieces: Array<{ readonly from: number; readonly start: number; readonly length: number }> = []
  let sql = ''
  for (const token of tokenize(text).tokens) {
    const reference = token.kind === 'placeholder' ? references[token.text.slice(1)] : undefined
    const piece = reference ?? (token.kind === 'comment' ? blankOut(token.text) : token.text)
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

/** The line of a text that has an error, with a caret under it. */
export function withCaret(text: string, at: number): string {
  const start = text.slice(0, at).lastIndexOf('\n') + 1
  const end = text.indexOf('\n', at)
  const line = text.slice(start, end === -1 ? undefined : end).trimEnd()
  const before = text.slice(start, at).replaceAll(/[^\t]/gu, ' ')
  return `${line}\n${before}^`
}

/** Whether the token is white space or a comment. */
const isFiller = (token: Token): boolean => token.kind === 'space' || token.kind === 'comment'

/** The tokens of a text without these. */
export const tokenizeCode = (text: string): Token[] =>
  tokenize(text).tokens.filter((token) => !isFiller(token))

/** A name as Postgres reads it: folded to lower case without quotes. Null: the token is none. */
export function nameIn(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase()
  if (token?.kind === 'quoted') return token.text.slice(1, -1).replaceAll('""', '"')
  return null
}

const blankOut = (text: string): string => text.replaceAll(/[^\n\r]/g, ' ')

function describePlaceholder(text: string, placeholders: readonly string[]): string {
  const all = placeholders.map((name) => `$${name}`)
  if (all.length === 0) return `'${text}': no placeholder can stand here`
  return `'${text}' is not one of ${listNames(all)}.${suggestion(text, all)}`
}

/** A piece of SQL text. The tokens of a text, joined, are the text. */
export interface Token {
  readonly kind: 'space' | 'comment' | 'word' | 'quoted' | 'string' | 'number' | 'placeholder' | 'symbol'
  readonly text: string
  /** Index of its first UTF-16 unit in the text. */
  readonly start: number
}

interface TokenizeResult {
  readonly tokens: readonly Token[]
  /** A string, a quoted name or a comment without an end. */
  readonly unfinished: Token | null
}

const IDENTIFIER_START = String.raw`[A-Za-z_\u0080-\uffff]`
const IDENTIFIER_PART = String.raw`[\w$\u0080-\uffff]`

/** In the order of precedence of Postgres's own scanner (src/backend/parser/scan.l). */
const TOKEN_PATTERNS: ReadonlyArray<readonly [Token['kind'], RegExp]> = [
  ['space', /\s+/y],
  ['comment', /--[^\n\r]*/y],
  // E'…' is the only form in which a backslash escapes the quote.
  ['string', /[eE]'(?:[^'\\]|''|\\[^])*'/y],
  ['string', /(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'/y],
  ['quoted', /(?:[uU]&)?"(?:[^"]|"")+"/y],
  [
    'string',
    new RegExp(String.raw`\$(?<tag>(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?)\$[^]*?\$\k<tag>\$`, 'y'),
  ],
  ['placeholder', new RegExp(String.raw`\$[\w\u0080-\uffff]+`, 'y')],
  ['word', new RegExp(`${IDENTIFIER_START}${IDENTIFIER_PART}*`, 'y')],
  ['number', /(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y],
]

/** Opened and never closed: tried only where no other pattern matches. */
const UNFINISHED = /[eEbBxXnN]?'|(?:[uU]&)['"]|"|\$\w*\$|\/\*/y

/** Splits SQL text into tokens as Postgres does, so that the content of strings and comments is not taken for code. */
export function tokenize(text: string): TokenizeResult {
  const tokens: Token[] = []
  let at = 0
  while (at < text.length) {
    const token = matchComment(text, at) ?? matchToken(text, at)
    if (token === null) return { tokens, unfinished: { kind: 'symbol', text: text.slice(at), start: at } }
    tokens.push(token)
    at += token.text.length
  }
  return { tokens, unfinished: null }
}

function matchToken(text: string, start: number): Token | null {
  const open = isOpened(text, start)
  for (const [kind, pattern] of TOKEN_PATTERNS) {
    // An opening quote without an end must not be read as the word before it: e'…
    if (open && kind !== 'string' && kind !== 'quoted') continue
    pattern.lastIndex = start
    const found = pattern.exec(text)?.[0]
    if (found !== undefined) return { kind, text: found, start }
  }
  return open ? null : { kind: 'symbol', text: text.slice(start, start + 1), start }
}

function isOpened(text: string, start: number): boolean {
  UNFINISHED.lastIndex = start
  return UNFINISHED.test(text)
}

/** A block comment. In Postgres they nest, which a regular expression cannot follow. */
function matchComment(text: string, start: number): Token | null {
  if (!text.startsWith('/*', start)) return null
  let depth = 0
  for (let i = start; i < text.length - 1; i++) {
    if (text.startsWith('/*', i)) {
      depth++
      i++
    } else if (text.startsWith('*/', i)) {
      depth--
      i++
      if (depth === 0) return { kind: 'comment', text: text.slice(start, i + 1), start }
    }
  }
  return null
}

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
