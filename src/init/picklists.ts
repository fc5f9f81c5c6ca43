import type { CandidateField } from './fields.ts'

/** Fewer values prove nothing about a column's labels. */
const MIN_VALUES = 10
/** `--None--`: a choice that means no value. */
const PLACEHOLDER = /^\W*(?:none|null|n\W?a|unknown|not set|undefined|(?:please )?select.*)?\W*$/i

/** The labels in use, if a text column repeats few short values; null otherwise. Pure. */
export function labelsInUse(
  { fit, labels = [], values }: CandidateField,
  most: number,
): readonly string[] | null {
  if (fit.kind !== 'text' || values.length < MIN_VALUES) return null
  const real = labels.filter((label) => !PLACEHOLDER.test(label))
  return real.length >= 2 && real.length <= most ? real : null
}

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
  if (/\+|^\s*>|over|more|above|plus|über|ab |mehr|más|mas |oltre|meer|over/.test(text))
    return { label, from, to: null }
  return /^\s*<|under|less|below|up to|bis|unter|jusqu|moins|hasta|menos|fino|tot /.test(text)
    ? { label, from: 0, to: from }
    : null
}

/** A map from the service's ranges into the column's own that hold them whole; null if there is none. Pure. */
export function widerRangeMap(
  labels: readonly string[],
  ranges: readonly string[],
): Record<string, string> | null {
  const wide = labels.flatMap((label) => parseRange(label) ?? [])
  const entries = ranges.flatMap((range) => {
    const narrow = parseRange(range)
    const label =
      narrow && wide.find((one) => one.from <= narrow.from && (one.to ?? Infinity) >= (narrow.to ?? Infinity))
    return label ? [[range, label.label] as const] : []
  })
  return wide.length < 2 || entries.length === 0 ? null : Object.fromEntries(entries)
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

const namesIn = (language: string): Intl.DisplayNames =>
  new Intl.DisplayNames([language], { type: 'region', fallback: 'none' })
const englishNames = namesIn('en')
const CODES = Array.from({ length: 26 * 26 }, (_, n) =>
  String.fromCharCode(65 + Math.floor(n / 26), 65 + (n % 26)),
).filter((code) => englishNames.of(code) !== undefined)
const LANGUAGES = ['de', 'fr', 'es', 'it', 'pt', 'nl', 'nb', 'sv', 'da', 'pl', 'fi']

/** Names that a service may send for a country. */
const sentNames = (code: string): string[] => {
  const name = englishNames.of(code)
  return name === undefined ? [] : [name, ...(ALIASES[code] ?? [])]
}

/**
 * Names of countries to what a column holds for them: the codes or the names in another language that are in use; null if
 * it holds neither. Pure.
 */
export function countryMap(values: readonly string[]): Record<string, string> | null {
  const used = [...new Set(values.map((value) => value.trim()))].filter((value) => value !== '')
  const codeOf = used.every((value) => /^(?:[A-Z]{2}|[a-z]{2})$/.test(value))
    ? (value: string) => value.toUpperCase()
    : codeInLanguage(used)
  if (codeOf === null) return null
  const entries = used.flatMap((value) => {
    const code = codeOf(value)
    return code === null ? [] : sentNames(code).map((name) => [name, value] as const)
  })
  return entries.length === 0 ? null : Object.fromEntries(entries.toSorted(([a], [b]) => a.localeCompare(b)))
}

/** The code of a name, in the language that most of the names are in; null if there is none. */
function codeInLanguage(used: readonly string[]): ((value: string) => string | null) | null {
  const plain = (name: string): string =>
    name
      .toLowerCase()
      .normalize('NFD')
      .replaceAll(/[\p{M}\s.’'-]/gu, '')
  const read = LANGUAGES.map((language) => {
    const names = namesIn(language)
    const codes = new Map(CODES.map((code) => [plain(names.of(code) ?? code), code]))
    for (const [code, aliases] of Object.entries(ALIASES))
      for (const alias of aliases) codes.set(plain(alias), code)
    codes.set(plain('Großbritannien'), 'GB')
    return { codes, known: used.filter((value) => codes.has(plain(value))).length }
  }).toSorted((a, b) => b.known - a.known)
  const [best] = read
  if (best === undefined || best.known * 4 < used.length * 3) return null
  return (value) => best.codes.get(plain(value)) ?? null
}

const REGIONS = new Set(CODES.flatMap(sentNames).map((name) => name.toLowerCase()))

/** Whether a text is a country's English name. */
export const isCountryName = (value: string): boolean => REGIONS.has(value.trim().toLowerCase())
