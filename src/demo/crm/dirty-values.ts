import type { NonEmptyList, Rng } from '../../sandbox/rng.ts'

type Variant = (text: string) => string

/** Stray spaces of copied values: plain, no-break, zero-width. */
const STRAY_SPACES: Weighted<Variant> = [
  [86, (text) => text],
  [5, (text) => ` ${text}`],
  [4, (text) => `${text} `],
  [3, (text) => `${text}\u00a0`],
  [1, (text) => `\u200b${text}`],
  [1, (text) => `${text}\r\n`],
]

/** The same value to a reader, and to Fillrate. */
export const withStraySpaces = (chance: Rng, text: string): string => drawWeighted(chance, STRAY_SPACES)(text)

const LETTER_CASES: Weighted<Variant> = [
  [74, (text) => text],
  [
    16,
    (text) =>
      text.replace(
        /(^|[.@-])(\p{L})/gu,
        (_, before: string, letter: string) => before + letter.toUpperCase(),
      ),
  ],
  [7, (text) => text.toUpperCase()],
  [3, (text) => text.charAt(0).toUpperCase() + text.slice(1)],
]

/** A valid address, in any case, with spaces around it. */
export const writeEmail = (chance: Rng, address: string): string =>
  withStraySpaces(chance, drawWeighted(chance, LETTER_CASES)(address))

const INVALID_EMAILS: NonEmptyList<(address: string, name: string) => string> = [
  (address, name) => `${name} <${address}>`,
  (address) => `mailto:${address}`,
  (address) => `${address}; office@${hostOf(address)}`,
  (address) => `${address}, ${address.replace('@', '.old@')}`,
  (address) => address.replace('@', ' at '),
  (address) => address.replace('@', '@@'),
  (address) => address.slice(0, address.indexOf('@')),
  (address) => address.replace(/\.[^.]+$/, ''),
  (address) => address.replace('@', '@.'),
  () => 'no email',
]

/** An invalid email address. */
export const writeInvalidEmail = (chance: Rng, address: string, name: string): string =>
  chance.pick(INVALID_EMAILS)(address, name)

const hostOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1)

const PROFILE_URLS: Weighted<(slug: string) => string> = [
  [40, (slug) => `https://www.linkedin.com/in/${slug}`],
  [14, (slug) => `https://www.linkedin.com/in/${slug}/`],
  [10, (slug) => `linkedin.com/in/${slug}`],
  [9, (slug) => `www.linkedin.com/in/${slug}`],
  [8, (slug) => `https://no.linkedin.com/in/${slug}?originalSubdomain=no`],
  [7, (slug) => `http://linkedin.com/in/${slug}/details/experience/`],
  [6, (slug) => `HTTPS://WWW.LINKEDIN.COM/IN/${slug.toUpperCase()}`],
  [6, (slug) => `https://m.linkedin.com/in/${slug}?utm_source=share&utm_medium=member_desktop`],
]

export const writeProfile = (chance: Rng, slug: string): string =>
  withStraySpaces(chance, drawWeighted(chance, PROFILE_URLS)(slug))

const INVALID_PROFILE_URLS: NonEmptyList<(slug: string) => string> = [
  (slug) => slug,
  (slug) => `@${slug}`,
  (slug) => `https://www.linkedin.com/company/${slug}`,
  (slug) => `https://twitter.com/${slug}`,
]

/** A handle, a company page, another network: not usable for a lookup. */
export const writeInvalidProfile = (chance: Rng, slug: string): string =>
  chance.pick(INVALID_PROFILE_URLS)(slug)

const WEBSITES: Weighted<Variant> = [
  [24, (host) => `https://www.${host}`],
  [16, (host) => `https://www.${host}/`],
  [16, (host) => host],
  [10, (host) => `www.${host}`],
  [9, (host) => `http://${host}/en/about-us?utm_source=crm`],
  [6, (host) => `https://${host}:443/contact#office`],
  [5, (host) => `HTTP://WWW.${host.toUpperCase()}/`],
  [4, (host) => `${host}.`],
  [4, (host) => `https://${host}/\u00a0`],
  [3, (host) => `  ${host}  `],
  [3, (host) => `//${host}/de/`],
]

export const writeWebsite = (chance: Rng, host: string): string => drawWeighted(chance, WEBSITES)(host)

const INVALID_WEBSITES: NonEmptyList<Variant> = [
  (host) => `info@${host}`,
  () => 'gmail.com',
  () => 'https://outlook.com',
  (host) => `https://www.linkedin.com/company/${host.replace(/\..*/, '')}/`,
  (host) => `facebook.com/${host.replace(/\..*/, '')}`,
  () => 'N/A',
  () => 'none',
  () => 'localhost:8080',
  () => '192.0.2.10',
]

/** Not usable to identify a company. */
export const writeInvalidWebsite = (chance: Rng, host: string): string => chance.pick(INVALID_WEBSITES)(host)

const PHONE_FORMATS: NonEmptyList<(digits: string) => string> = [
  (digits) => `+47 ${digits.slice(0, 3)} ${digits.slice(3, 5)} ${digits.slice(5)}`,
  (digits) => `0047${digits}`,
  (digits) => `(0)${digits.slice(0, 2)}-${digits.slice(2)}`,
  (digits) => `${digits} (mobile)`,
  (digits) => digits,
]

export const writePhone = (chance: Rng): string =>
  chance.pick(PHONE_FORMATS)(String(chance.between(20_000_000, 99_999_999)))

const BLANK_VALUES: Weighted<string | null> = [
  [68, null],
  [20, ''],
  [6, ' '],
  [3, '\u00a0'],
  [3, '\u200b'],
]

/** Blank values, as forms and imports leave them. */
export const writeBlank = (chance: Rng): string | null => drawWeighted(chance, BLANK_VALUES)

/** Values with relative weights. */
export type Weighted<T> = NonEmptyList<readonly [parts: number, value: T]>

/** Draws one of the values by its weight. */
export function drawWeighted<T>(chance: Rng, shares: Weighted<T>): T {
  let left = chance.next() * shares.reduce((sum, [parts]) => sum + parts, 0)
  for (const [parts, value] of shares) {
    left -= parts
    if (left < 0) return value
  }
  return shares[0][1]
}
