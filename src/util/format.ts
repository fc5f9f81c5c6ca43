import ms from 'ms'

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
export function pluralize(n: number, one: string, many = `${one}s`): string {
  return `${formatCount(n)} ${n === 1 ? one : many}`
}

/** Names as a list in a sentence: `people, accounts and deals`; of many, their number. */
export function listInWords(names: readonly string[], noun = 'sources'): string {
  if (names.length > 5) return `${formatCount(names.length)} ${noun}`
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
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
  const unit = UNITS_MS.find((one) => one <= Math.abs(ms)) ?? 1
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
