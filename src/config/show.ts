const longest = 80

/** A value as a message shows it: on one line, no longer than a line, and without a password. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return quote(value)
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'function') return 'a function'
  if (value instanceof RegExp) return cut(String(value))
  if (typeof value === 'object' && value !== null)
    return Object.keys(value).length === 0 ? 'an empty object' : 'an object'
  return String(value)
}

/** In single quotes, with control characters as escapes: a message must not be able to clear a terminal. */
export function quote(text: string): string {
  if (text === '') return 'an empty text'
  if (text.trim() === '') return 'white space'
  const escaped = JSON.stringify(cut(maskPasswords(text)))
    .slice(1, -1)
    .replaceAll('\\"', '"')
  return `'${escaped.replace(/[\u007f-\u009f]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)}'`
}

function cut(text: string): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text
}

/** Without the passwords of the URLs in the text, in their authority or their query. */
export function maskPasswords(text: string): string {
  const query = text.replace(/([?&](?:ssl)?password=)[^\s&]*/gi, '$1***')
  // Up to the last @: a password that is not percent-encoded may hold one itself.
  return query.replace(/(:\/\/[^\s:/?#@]*:)\S*@/g, '$1***@')
}

/** `a, b or c`, each in quotes. */
export function oneOf(words: readonly string[]): string {
  const quoted = words.map((word) => `'${word}'`)
  const last = quoted.pop()
  return quoted.length === 0 ? (last ?? '') : `${quoted.join(', ')} or ${last}`
}
