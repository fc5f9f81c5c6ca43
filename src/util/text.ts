import ms from 'ms'
import { isIP } from 'node:net'

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

/** The name of a variable of a service. @param service null: it is the only one */
export const toVariable = (service: string | null, name: string): string =>
  `FILLRATE_${service === null ? '' : `${service.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_`}${name}`

/** 0: the same words; above 1: too far to suggest. */
function wordDistance(word: string, candidate: string): number {
  const [a, b] = [splitWords(word), splitWords(candidate)]
  const common = a.filter((part) => b.includes(part)).length
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

/**
 * The parts of a dotted name in SQL, without quotes and white space: `attributes` and `a.b` of `attributes."a.b"`.
 * @param fold what becomes of a part without quotes
 */
export const splitName = (name: string, fold = (part: string): string => part): string[] =>
  [...name.matchAll(/"(?:[^"]|"")*"|[^."\s](?:[^."]*[^."\s])?/g)].map(([part]) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : fold(part),
  )

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

/**
 * Replaces control characters: text from a database that others write to must not move the cursor, clear the screen,
 * change the writing direction or end a line of a generated file.
 */
export function sanitize(text: string): string {
  return text.replace(/[\t\n\r]+/g, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}

/** Made when it is needed first: making it takes 10 ms. */
let countFormat: Intl.NumberFormat | null = null

/** A number with thousands separators, and the decimals that credits may have: `1,234`, `0.5`. */
export function formatCount(n: number): string {
  countFormat ??= new Intl.NumberFormat('en-US', { maximumFractionDigits: 6 })
  return countFormat.format(n)
}

/** The text with a capital letter, as the begin of a sentence. */
export const toSentenceCase = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** A number and its noun: `1 row`, `1,234 rows`, `0.5 credits`. */
export function pluralize(n: number, singular: string, many = `${singular}s`): string {
  return `${formatCount(n)} ${n === 1 ? singular : many}`
}

/**
 * A share as `98.7%`. A share below 1 is never shown as `100%`, nor one above 0 as `0%`: a report must not round away its
 * last failed row.
 */
export function formatPercent(share: number): string {
  if (share <= 0) return '0%'
  if (share < 0.001) return '<0.1%'
  if (share < 1 && share > 0.999) return '>99.9%'
  return share === 1 ? '100%' : `${(share * 100).toFixed(1)}%`
}

/** A sum of money: `1,234.50 EUR`, `0.004 EUR`. */
export function formatMoney({ amount, currency }: { amount: number; currency: string }): string {
  const isSmall = amount > 0 && amount < 0.01
  const format = new Intl.NumberFormat(
    'en-US',
    isSmall ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 },
  )
  return `${format.format(amount)} ${currency}`
}

/** A duration: `40 ms`, `2.3 s`, `41 s`, `4 min 12 s`, `1 h 05 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  if (whole < 100) return `${whole} ms`
  if (whole < 9_950) return `${(whole / 1_000).toFixed(1).replace(/\.0$/, '')} s`
  const seconds = Math.round(whole / 1_000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return joinUnits(`${minutes} min`, seconds % 60, 's')
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return joinUnits(`${hours} h`, minutes % 60, 'min')
  return joinUnits(`${Math.floor(hours / 24)} d`, hours % 24, 'h')
}

const joinUnits = (first: string, rest: number, unit: string): string =>
  rest === 0 ? first : `${first} ${String(rest).padStart(2, '0')} ${unit}`

/** A rate: `48/s`, `4.8/s`. */
export function formatPerSecond(n: number): string {
  return `${n > 0 && n < 10 ? n.toFixed(1).replace(/\.0$/, '') : formatCount(Math.round(n))}/s`
}

/** A day, an hour and a minute, in milliseconds. */
const UNITS_MS = [86_400_000, 3_600_000, 60_000]

/** A time relative to now, in its largest unit: `12 s ago`, `in 5 h`. */
export function relativeTime(then: Date, now: number): string {
  const ms = then.getTime() - now
  const unit = UNITS_MS.find((size) => size <= Math.abs(ms)) ?? 1
  // Rounded: what is due 90 days from a second ago is due in 90 days.
  const words = formatDuration(Math.round(Math.abs(ms) / unit) * unit)
  if (Math.abs(ms) < 1_000) return 'now'
  return ms < 0 ? `${words} ago` : `in ${words}`
}

/** A time in UTC: `2026-03-01 14:03:11 UTC`. */
export const formatUtc = (date: Date): string => `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** A time in the local time zone: `2026-03-01 14:03`. */
export function formatTime(date: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`
}

/** Longer than any useful duration, and far inside the range of dates. */
const MAX_DURATION_MS = 100 * 365 * 24 * 3_600_000

/**
 * Parses a duration such as `30s`, `6h` or `90d` to milliseconds, or null. The unit is required: `30` is ambiguous, and
 * `ms` would read it as milliseconds.
 */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim()
  if (!/^\d+(?:\.\d+)? ?[a-z]+$/i.test(trimmed)) return null
  // `ms` returns undefined for an unknown unit, whatever its type says.
  const parsed: number | undefined = ms(trimmed as `${number}d`)
  if (parsed === undefined || !Number.isFinite(parsed) || parsed > MAX_DURATION_MS) return null
  return Math.round(parsed)
}

/**
 * The share of all cells that hold a value, over the columns that were counted; null: there are none.
 * @param filled rows with a value, by column; undefined: a column that was not counted
 */
export function filledShare(eligible: number, filled: readonly (number | undefined)[]): number | null {
  const counted = filled.filter((rows) => rows !== undefined)
  const cells = eligible * counted.length
  return cells === 0 ? null : counted.reduce((sum, rows) => sum + rows, 0) / cells
}

/**
 * Whether a host name or IP address, with or without brackets, is this machine.
 * @example isLoopbackHost('[::1]') // true
 */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '')
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/**
 * Whether a URL points to this machine; false if it is not a URL.
 * @example isLoopbackUrl('http://127.0.0.1:8080/v1') // true
 */
export const isLoopbackUrl = (url: string): boolean => isLoopbackHost(URL.parse(url)?.hostname ?? '')
