import { quoteLiteral } from '../sources/quote.ts'
import { isKnownLabel } from './enum-labels.ts'
import type { CandidateField } from './fields.ts'
import type { ColumnRole } from './roles.ts'

/** Fewer values prove nothing about a column's labels. */
const MIN_VALUES = 10
const MAX_LABELS = 40
/** `--None--`: a choice that means no value. */
const PLACEHOLDER = /^\W*(?:none|null|n\W?a|unknown|not set|undefined|(?:please )?select.*)?\W*$/i

/** The labels in use, if a text column repeats few short values; null otherwise. Pure. */
export function labelsInUse({ fit, values }: CandidateField): readonly string[] | null {
  if (fit.kind !== 'text' || values.length < MIN_VALUES) return null
  const labels = [...new Set(values.map((value) => value.trim()))].filter((label) => !PLACEHOLDER.test(label))
  const isFew = labels.length >= 3 && labels.length <= MAX_LABELS && labels.length * 2 <= values.length
  return isFew && labels.every((label) => label.length <= 60) ? labels : null
}

/** Whether labels are codes of the program, `health_care` or `HEALTH-CARE`: other text would be out of place. */
const areCodes = (labels: readonly string[]): boolean =>
  labels.filter((label) => /^(?:[a-z0-9]+(?:[_-][a-z0-9]+)*|[A-Z0-9]+(?:[_-][A-Z0-9]+)*)$/.test(label))
    .length *
    2 >
  labels.length

/** Whether a value must be one of the labels in use, rather than any text. Pure. */
export const isPicklist = (role: ColumnRole, labels: readonly string[]): boolean =>
  areCodes(labels) || labels.filter((label) => isKnownLabel(role, label)).length * 2 >= labels.length

interface Range {
  readonly label: string
  readonly from: number
  readonly to: number | null
}

const UNITS: Readonly<Record<string, number>> = {
  k: 1e3,
  thousand: 1e3,
  m: 1e6,
  mio: 1e6,
  million: 1e6,
  b: 1e9,
  bn: 1e9,
  billion: 1e9,
}

/** `51-200 employees`, `$1M - $10M`, `10,001+`, `< 10`; null if the label is no range. */
function parseRange(label: string): Range | null {
  const text = label.toLowerCase().replaceAll(/(?<=\d)[,.'\s](?=\d{3}(?!\d))/g, '')
  const found = [...text.matchAll(/(\d+(?:\.\d+)?)\s*(k|thousand|m|mio|million|bn?|billion)?(?![a-z])/g)]
  const last = found.at(-1)?.[2]
  const numbers = found.map(([, digits = '', unit = last]) => Number(digits) * (UNITS[unit ?? ''] ?? 1))
  const [from, to] = numbers
  if (from === undefined || numbers.length > 2) return null
  if (to !== undefined) return from <= to ? { label, from, to } : null
  if (/\+|^\s*>|over|more|above|plus/.test(text)) return { label, from, to: null }
  return /^\s*<|under|less|below|up to/.test(text) ? { label, from: 0, to: from } : null
}

/** A map from ranges into wider ones; null if a range would be split. Pure. */
export function widerRangeMap(
  labels: readonly string[],
  ranges: readonly string[],
): Record<string, string> | null {
  const wide = labels.flatMap((label) => parseRange(label) ?? [])
  const map: Record<string, string> = {}
  for (const range of ranges) {
    const narrow = parseRange(range)
    if (narrow === null) return null
    const [from, to] = [narrow.from, narrow.to ?? Infinity]
    const label = wide.find((one) => one.from <= from && (one.to ?? Infinity) >= to)
    if (label) map[range] = label.label
    // Outside of all labels, and not across the end of one.
    else if (wide.some((one) => one.from <= to && (one.to ?? Infinity) >= from)) return null
  }
  return wide.length < 2 || Object.keys(map).length === 0 ? null : map
}

/** SQL that puts a number into the range of a label; null if the labels are not ranges. Pure. */
export function rangeSql(labels: readonly string[]): string | null {
  const ranges = labels.flatMap((label) => parseRange(label) ?? [])
  if (ranges.length < 2 || ranges.length < labels.length - 1) return null
  const sorted = ranges.toSorted((a, b) => a.from - b.from)
  const isApart = sorted.every(({ to }, n) => to === null || to <= (sorted[n + 1]?.from ?? Infinity))
  if (!isApart || sorted.slice(0, -1).some(({ to }) => to === null)) return null
  const cases = sorted.map(
    ({ label, from, to }) =>
      `when $value ${to === null ? `>= ${from}` : `between ${from} and ${to}`} then ${quoteLiteral(label)}`,
  )
  return `case ${cases.join('\n     ')} end`
}

/** Other names that a service may send for a country. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  US: ['USA', 'United States of America'],
  GB: ['UK', 'Great Britain'],
  CZ: ['Czech Republic'],
  NL: ['The Netherlands'],
  KR: ['South Korea', 'Korea, Republic of'],
  TR: ['Turkey'],
  AE: ['UAE'],
}

const englishNames = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })

/** Names of countries to the two-letter codes in use; null if the column holds no such codes. Pure. */
export function countryCodeMap(values: readonly string[]): Record<string, string> | null {
  const codes = [...new Set(values.map((value) => value.trim()))]
  if (codes.length === 0 || !codes.every((code) => /^(?:[A-Z]{2}|[a-z]{2})$/.test(code))) return null
  const entries = codes.flatMap((code) => {
    const name = englishNames.of(code.toUpperCase())
    const names = name === undefined ? [] : [name, ...(ALIASES[code.toUpperCase()] ?? [])]
    return names.map((one) => [one, code] as const)
  })
  return entries.length === 0 ? null : Object.fromEntries(entries.toSorted(([a], [b]) => a.localeCompare(b)))
}

const REGIONS = new Set(
  Array.from({ length: 26 * 26 }, (_, n) =>
    String.fromCharCode(65 + Math.floor(n / 26), 65 + (n % 26)),
  ).flatMap((code) => {
    const name = englishNames.of(code)
    return name === undefined ? [] : [name, ...(ALIASES[code] ?? [])].map((one) => one.toLowerCase())
  }),
)

/** Whether a text is a country's English name. */
export const isCountryName = (value: string): boolean => REGIONS.has(value.trim().toLowerCase())
