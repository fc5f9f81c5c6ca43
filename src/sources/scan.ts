/** A piece of SQL text. Together the tokens of a text are the text. */
export interface Token {
  readonly kind: 'space' | 'comment' | 'word' | 'quoted' | 'string' | 'number' | 'placeholder' | 'symbol'
  readonly text: string
  /** Index of its first UTF-16 unit in the text. */
  readonly start: number
}

export interface Scan {
  readonly tokens: readonly Token[]
  /** A string, a quoted name or a comment that has no end. */
  readonly unfinished: Token | null
}

const identifierStart = String.raw`[A-Za-z_\u0080-\uffff]`
const identifierPart = String.raw`[\w$\u0080-\uffff]`

/** In the order in which Postgres's own scanner prefers them (src/backend/parser/scan.l). */
const patterns: ReadonlyArray<readonly [Token['kind'], RegExp]> = [
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
  ['word', new RegExp(`${identifierStart}${identifierPart}*`, 'y')],
  ['number', /(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y],
]

/** Opened and never closed: only tried where none of the above matches. */
const unfinished = /[eEbBxXnN]?'|(?:[uU]&)['"]|"|\$\w*\$|\/\*/y

/** Splits SQL text into tokens as Postgres does, so that what stands in a string or a comment is taken for neither. */
export function scan(text: string): Scan {
  const tokens: Token[] = []
  let at = 0
  while (at < text.length) {
    const token = comment(text, at) ?? matched(text, at)
    if (token === null) return { tokens, unfinished: { kind: 'symbol', text: text.slice(at), start: at } }
    tokens.push(token)
    at += token.text.length
  }
  return { tokens, unfinished: null }
}

function matched(text: string, start: number): Token | null {
  const open = isOpened(text, start)
  for (const [kind, pattern] of patterns) {
    // An opening quote whose end is missing must not be read as the word before it: e'…
    if (open && kind !== 'string' && kind !== 'quoted') continue
    pattern.lastIndex = start
    const found = pattern.exec(text)?.[0]
    if (found !== undefined) return { kind, text: found, start }
  }
  return open ? null : { kind: 'symbol', text: text.slice(start, start + 1), start }
}

function isOpened(text: string, start: number): boolean {
  unfinished.lastIndex = start
  return unfinished.test(text)
}

/** A comment between slashes and stars. In Postgres they nest, which no regular expression can follow. */
function comment(text: string, start: number): Token | null {
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
