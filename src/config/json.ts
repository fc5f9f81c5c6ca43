/** A syntax error in JSON. The offset counts UTF-16 code units from the start of the text. */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonProblem'
  readonly offset: number
  readonly expected: string

  constructor(offset: number, expected: string) {
    super(`expected ${expected} at offset ${offset}`)
    this.offset = offset
    this.expected = expected
  }
}

/**
 * Parses JSON and reports where a mistake is and what was expected. `JSON.parse` reports a position for some mistakes
 * only, in wording that changes with Node, and silently takes the last of two equal keys, which would lose an output
 * that is listed twice.
 *
 * @throws JsonProblem
 */
export function parseConfigJson(text: string): unknown {
  let offset = text.startsWith('\ufeff') ? 1 : 0
  const value = readValue('a value')
  skipSpace()
  if (offset < text.length) throw new JsonSyntaxError(offset, 'nothing after the last }')
  return value

  function readValue(expected: string): unknown {
    skipSpace()
    const character = text[offset]
    if (character === '{') return readObject()
    if (character === '[') return readArray()
    if (character === '"') return readString(expected)
    const token = take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)/iy)
    try {
      return JSON.parse(token ?? '')
    } catch {
      throw new JsonSyntaxError(offset - (token ?? '').length, expected)
    }
  }

  function readObject(): Record<string, unknown> {
    offset++
    const entries = new Map<string, unknown>()
    while (!takeSign('}')) {
      if (entries.size > 0 && !takeSign(',')) throw new JsonSyntaxError(offset, 'a comma or }')
      skipSpace()
      const start = offset
      const key = readString('a key in double quotes')
      if (entries.has(key)) throw new JsonSyntaxError(start, 'each key once')
      if (!takeSign(':')) throw new JsonSyntaxError(offset, 'a colon')
      entries.set(key, readValue('a value'))
    }
    return Object.fromEntries(entries)
  }

  function readArray(): unknown[] {
    offset++
    const items: unknown[] = []
    while (!takeSign(']')) {
      if (items.length > 0 && !takeSign(',')) throw new JsonSyntaxError(offset, 'a comma or ]')
      items.push(readValue('a value'))
    }
    return items
  }

  function readString(expected: string): string {
    const start = offset
    const token = take(/"(?:[^"\\\n\r]|\\[^\n\r])*"/y)
    if (token === null)
      throw new JsonSyntaxError(start, text[start] === '"' ? 'a text that ends with " on its line' : expected)
    try {
      return String(JSON.parse(token))
    } catch {
      throw new JsonSyntaxError(start, 'a text whose backslashes are doubled, as in "\\\\d"')
    }
  }

  function take(pattern: RegExp): string | null {
    pattern.lastIndex = offset
    const token = pattern.exec(text)?.[0] ?? null
    offset += token?.length ?? 0
    return token
  }

  function takeSign(sign: string): boolean {
    skipSpace()
    if (text[offset] !== sign) return false
    offset++
    return true
  }

  function skipSpace(): void {
    take(/[ \t\n\r]*/y)
  }
}
