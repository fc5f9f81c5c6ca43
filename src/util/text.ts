const MAX_SUGGESTIONS = 3

/**
 * `Did you mean 'title'?`, or null if no candidate is close. Close is: the same words in another order or case
 * (`firstName`, `name.first`), one word more or less (`phone_number`, `city`), a prefix (`warning`), or a typing error.
 */
export function didYouMean(word: string, candidates: readonly string[]): string | null {
  const scored = candidates
    .map((candidate) => ({ candidate, distance: wordDistance(word, candidate) }))
    .filter((scored) => scored.distance <= 1)
  const best = Math.min(...scored.map((scored) => scored.distance))
  const near = scored.filter((scored) => scored.distance === best).map((scored) => scored.candidate)
  return near.length === 0 || near.length > MAX_SUGGESTIONS ? null : `Did you mean ${oneOf(near)}?`
}

/** The beginning of a long text, such as a trigger may raise: for a title. */
export const shorten = (text: string, length = 160): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).trimEnd()}…`

/** A service's name as it is in the names of its variables. */
export const toVariablePart = (name: string): string => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')

/** 0: the same words; above 1: too far to suggest. */
function wordDistance(word: string, candidate: string): number {
  const [a, b] = [splitWords(word), splitWords(candidate)]
  const common = a.filter((one) => b.includes(one)).length
  if (common === a.length && common === b.length) return 0
  // One whole word more or less is closer than most typing errors.
  const byWords = common > 0 && a.length + b.length - 2 * common <= 1 ? 0.5 : Number.POSITIVE_INFINITY
  const [short, long] = [word.toLowerCase(), candidate.toLowerCase()].sort((x, y) => x.length - y.length)
  if (short !== undefined && short.length >= 3 && long?.startsWith(short) === true)
    return Math.min(0.75, byWords)
  const edits = editDistance(word.toLowerCase(), candidate.toLowerCase())
  // Two short words that differ in every letter have nothing in common.
  if (edits >= Math.min(word.length, candidate.length)) return byWords
  return Math.min(edits / Math.max(1, Math.floor(0.4 * candidate.length)), byWords)
}

function splitWords(text: string): string[] {
  return text
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
}

/** Damerau-Levenshtein distance: letters to insert, delete, replace or swap with their neighbour. */
export function editDistance(from: string, to: string): number {
  let [before, previous, current]: [number[], number[], number[]] = [
    [],
    [],
    Array.from({ length: to.length + 1 }, (_, i) => i),
  ]
  for (let i = 1; i <= from.length; i++) {
    ;[before, previous, current] = [previous, current, [i]]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1]
      let least = Math.min(
        valueAtIndex(previous, j) + 1,
        valueAtIndex(current, j - 1) + 1,
        valueAtIndex(previous, j - 1) + (same ? 0 : 1),
      )
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        least = Math.min(least, valueAtIndex(before, j - 2) + 1)
      current[j] = least
    }
  }
  return valueAtIndex(current, to.length)
}

const valueAtIndex = (row: readonly number[], index: number): number => row[index] ?? 0

/** The text as a part of a regular expression that matches nothing else. */
export const escapeRegExp = (text: string): string => text.replaceAll(/[$()*+./?[\\\]^{|}]/g, String.raw`\$&`)

const MAX_LENGTH = 80

/** A value for a message: on one line, at most 80 characters, without passwords. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return quoteText(value)
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'function') return 'a function'
  if (value instanceof RegExp) return truncate(String(value))
  if (typeof value === 'object' && value !== null)
    return Object.keys(value).length === 0 ? 'an empty object' : 'an object'
  return String(value)
}

/** The text in single quotes, with control characters escaped: a message must not control a terminal. */
export function quoteText(text: string): string {
  if (text === '') return 'an empty text'
  if (text.trim() === '') return 'white space'
  const escaped = JSON.stringify(truncate(maskPasswords(text)))
    .slice(1, -1)
    .replaceAll('\\"', '"')
  return `'${escaped.replace(/[\u007f-\u009f]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)}'`
}

function truncate(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text
}

/** Masks the passwords of URLs in the text, in their authority or query. */
export function maskPasswords(text: string): string {
  const query = text.replace(/([?&](?:ssl)?password=)[^\s&]*/gi, '$1***')
  // Up to the last @: a password that is not percent-encoded may contain one.
  return query.replace(/(:\/\/[^\s:/?#@]*:)\S*@/g, '$1***@')
}

/** ` Did you mean 'title'?`, to follow a sentence; empty if no candidate is close. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const question = didYouMean(word, candidates)
  return question === null ? '' : ` ${question}`
}

/**
 * A list of names on one line, where the names matter less than how many they are.
 * @example
 * foldNames(['contacts', 'accounts', 'leads', 'deals']) // 'contacts, accounts and 2 more'
 */
export function foldNames(names: readonly string[], shown = 3): string {
  // To replace one name by "1 more" would save nothing.
  if (names.length <= shown) return names.join(', ')
  return `${names.slice(0, shown - 1).join(', ')} and ${names.length - shown + 1} more`
}

/** A list of names for a message, cut after twelve. */
export const listNames = (names: readonly string[]): string => foldNames(names, 13)

/** `'a', 'b' or 'c'`. */
export function oneOf(words: readonly string[]): string {
  const quoted = words.map((word) => `'${word}'`)
  const last = quoted.pop()
  return quoted.length === 0 ? (last ?? '') : `${quoted.join(', ')} or ${last}`
}

/** An error text of others without what may be personal: quoted texts, addresses, and words with digits become `…`. */
export function maskValues(text: string): string {
  return text
    .replaceAll(/<NULL>|"[^"]*"|(?<!\w)'[^']*'(?!\w)|[^\s(),;:=<>[\]]*[@\d][^\s(),;:=<>[\]]*/g, '…')
    .replaceAll(/…(?:[\s:.,–-]*…)+/g, '…')
}

/**
 * Replaces control characters: text from a database that others write to must not move the cursor, clear the screen,
 * change the writing direction or end a line of a generated file.
 */
export function sanitize(text: string): string {
  return text.replace(/[\t\n\r]+/g, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}
