import type { Chance, Choices } from '../../../sandbox/chance.ts'
import { draw, type Shares } from './shares.ts'

/** The many ways in which people and their programs write the same thing. */

type Way = (text: string) => string

/** Spaces that come along when a value is copied: plain, no-break, of no width. */
const SPACED: Shares<Way> = [
  [86, (text) => text],
  [5, (text) => ` ${text}`],
  [4, (text) => `${text} `],
  [3, (text) => `${text}\u00a0`],
  [1, (text) => `\u200b${text}`],
  [1, (text) => `${text}\r\n`],
]

/** The same to a reader, and to Fillrate. */
export const spaced = (chance: Chance, text: string): string => draw(chance, SPACED)(text)

const CASES: Shares<Way> = [
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
export const writeEmail = (chance: Chance, address: string): string =>
  spaced(chance, draw(chance, CASES)(address))

const SPOILT: Choices<(address: string, name: string) => string> = [
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

/** What was meant as an address and is none. */
export const writeInvalidEmail = (chance: Chance, address: string, name: string): string =>
  chance.pick(SPOILT)(address, name)

const hostOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1)

const PROFILES: Shares<(slug: string) => string> = [
  [40, (slug) => `https://www.linkedin.com/in/${slug}`],
  [14, (slug) => `https://www.linkedin.com/in/${slug}/`],
  [10, (slug) => `linkedin.com/in/${slug}`],
  [9, (slug) => `www.linkedin.com/in/${slug}`],
  [8, (slug) => `https://no.linkedin.com/in/${slug}?originalSubdomain=no`],
  [7, (slug) => `http://linkedin.com/in/${slug}/details/experience/`],
  [6, (slug) => `HTTPS://WWW.LINKEDIN.COM/IN/${slug.toUpperCase()}`],
  [6, (slug) => `https://m.linkedin.com/in/${slug}?utm_source=share&utm_medium=member_desktop`],
]

export const writeProfile = (chance: Chance, slug: string): string =>
  spaced(chance, draw(chance, PROFILES)(slug))

const NO_PROFILES: Choices<(slug: string) => string> = [
  (slug) => slug,
  (slug) => `@${slug}`,
  (slug) => `https://www.linkedin.com/company/${slug}`,
  (slug) => `https://twitter.com/${slug}`,
]

/** A handle, a company's page, another network: nothing to ask by. */
export const writeNoProfile = (chance: Chance, slug: string): string => chance.pick(NO_PROFILES)(slug)

const SITES: Shares<Way> = [
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

export const writeWebsite = (chance: Chance, host: string): string => draw(chance, SITES)(host)

const NO_SITES: Choices<Way> = [
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

/** Nothing that a company could be told by. */
export const writeNoWebsite = (chance: Chance, host: string): string => chance.pick(NO_SITES)(host)

const PHONES: Choices<(digits: string) => string> = [
  (digits) => `+47 ${digits.slice(0, 3)} ${digits.slice(3, 5)} ${digits.slice(5)}`,
  (digits) => `0047${digits}`,
  (digits) => `(0)${digits.slice(0, 2)}-${digits.slice(2)}`,
  (digits) => `${digits} (mobile)`,
  (digits) => digits,
]

export const writePhone = (chance: Chance): string =>
  chance.pick(PHONES)(String(chance.between(20_000_000, 99_999_999)))

const EMPTY: Shares<string | null> = [
  [68, null],
  [20, ''],
  [6, ' '],
  [3, '\u00a0'],
  [3, '\u200b'],
]

/** Nothing, as forms and imports leave it: all of these are blank. */
export const writeNothing = (chance: Chance): string | null => draw(chance, EMPTY)
