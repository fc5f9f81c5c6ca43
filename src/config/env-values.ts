import { isIP } from 'node:net'
import { didYouMean, oneOf, quoteText } from '../util/text.ts'

/** A value of the environment that cannot be used. `found` must not reveal a secret. */
export class InvalidValue extends Error {
  readonly found: string
  readonly expected: string
  readonly todo: string | null

  constructor(found: string, expected: string, todo: string | null = null) {
    super(found)
    this.found = found
    this.expected = expected
    this.todo = todo
  }
}

// Each parser throws an InvalidValue.

/** One of a few words, in any case. */
export function parseWord<const Word extends string>(text: string, words: readonly Word[]): Word {
  const value = words.find((word) => word === text.toLowerCase())
  if (value !== undefined) return value
  throw new InvalidValue(quoteText(text), oneOf(words), didYouMean(text, words))
}

export function parseWhole(text: string, what: string, least: number, most: number): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new InvalidValue(quoteText(text), `${what}: a whole number from ${least} to ${most}`)
}

export function parseHost(text: string): string {
  const host = text.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 || /^(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}$/i.test(host)) return host
  const expected = "an address or host to listen on, such as '127.0.0.1' or '0.0.0.0'"
  throw new InvalidValue(quoteText(text), expected, 'A port goes into FILLRATE_PORT.')
}

const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** Comma-separated secrets. `isSent`: in a header, so only visible ASCII is allowed. */
export function parseSecrets(text: string, what: string, { isSent }: { isSent: boolean }): readonly string[] {
  const secrets = splitList(text)
  for (const [n, secret] of secrets.entries()) {
    const wrong = describeSecretProblem(secret, isSent)
    if (wrong !== null)
      throw new InvalidValue(
        `a ${what}${numberOf(n, secrets)} ${wrong} (not shown)`,
        `the ${what} as issued to you; several, newest first, separated by commas`,
      )
  }
  return secrets
}

const numberOf = (index: number, list: readonly string[]): string =>
  list.length === 1 ? '' : `, number ${index + 1} of ${list.length},`

/** Shorter tokens could be guessed; 16 hexadecimal digits cannot. */
const MIN_TOKEN_LENGTH = 16

/** A token of the dashboard and its APIs. */
export interface DashboardToken {
  /** Who has it, for the audit list. */
  readonly name: string
  /** A reader sees everything and changes nothing. */
  readonly role: 'operator' | 'reader'
  readonly secret: string
}

/** A token may have its holder's name before it: `anna:6f1c…`. */
const NAMED_TOKEN = /^([a-z][\w.-]{0,31}):(.*)$/is

/**
 * Comma-separated tokens, each sent in a header, with an optional name. A token without a name is called like its role.
 * @example
 * parseTokens('anna:0123456789abcdef,ben:fedcba9876543210', 'operator')
 */
export function parseTokens(text: string, role: DashboardToken['role']): readonly DashboardToken[] {
  const parts = splitList(text)
  return parts.map((part, n) => {
    const [, name = role, secret = part] = NAMED_TOKEN.exec(part) ?? []
    const isShort = secret.length < MIN_TOKEN_LENGTH
    const wrong = describeSecretProblem(secret, true) ?? (isShort ? `of ${secret.length} characters` : null)
    if (wrong === null) return { name, role, secret }
    throw new InvalidValue(
      `a token${numberOf(n, parts)} ${wrong} (not shown)`,
      `${MIN_TOKEN_LENGTH} visible ASCII characters or more; several as 'anna:TOKEN,ben:TOKEN'`,
      'Make one with `openssl rand -hex 32`.',
    )
  })
}

/** What is wrong with a secret, in words that do not show it; null: nothing. */
function describeSecretProblem(secret: string, isSent: boolean): string | null {
  // Docker's --env-file keeps the quotes that a shell would take off.
  if (/^(["']).*\1$/s.test(secret)) return 'in quotes'
  if (!isSent) return null
  if (/^bearer\s/i.test(secret)) return 'with the word Bearer before it'
  if (/\s/.test(secret)) return 'with white space in it'
  return /^[\x21-\x7e]+$/.test(secret) ? null : 'with characters that a header cannot hold'
}

/** A Postgres URL, unchanged. Errors do not show it, since it may hold a password. */
export function parseDatabaseUrl(text: string): string {
  const url = URL.parse(text)
  // The first / ? or # ends the host, so an unescaped one in the password leaves its @ behind.
  const isCut = url !== null && (/@/.test(url.pathname) || url.hash !== '' || /^\?[^=]*@/.test(url.search))
  if (/^postgres(?:ql)?:\/\//i.test(text) && url !== null && !isCut && !/\s/.test(text)) return text
  throw new InvalidValue(
    'no connection URL that can be read (not shown: it may hold a password)',
    "a URL such as 'postgres://user:password@localhost:5432/crm'",
    'Write @ as %40, : as %3A, / as %2F, # as %23, ? as %3F and % as %25 in the user name and the password.',
  )
}

/** An http or https URL; null: the text is none. */
function parseHttpUrl(text: string): URL | null {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url : null
}

interface AddressRole {
  readonly of: 'service' | 'receiver' | 'dashboard'
  /** A path suffix that Fillrate adds itself. */
  readonly leaveOff: string
}

/** An http or https URL, without a trailing slash. */
export function parseAddress(text: string, { of, leaveOff }: AddressRole): string {
  const expected = `the ${of}'s http or https URL, such as 'https://${of}.example.com'`
  const url = parseHttpUrl(text)
  if (/[@?#]/.test(text))
    throw new InvalidValue(
      'a URL with a user name, a password, a query or a fragment (not shown)',
      expected,
      of === 'service' ? 'Leave it out; a key goes into _API_KEY, with _AUTH=query.' : 'Leave it out.',
    )
  if (url === null) throw new InvalidValue(quoteText(text), expected, 'Start it with https:// or http://.')
  const address = url.href.replace(/\/+$/, '')
  if (address.endsWith(leaveOff))
    throw new InvalidValue(quoteText(text), expected, `Leave ${leaveOff} off: it is added to every URL.`)
  return address
}

/** An http or https URL that may itself be a secret, as Slack's are, or hold a password: never shown. */
export function parseSecretAddress(text: string, example: string): string {
  const url = parseHttpUrl(text)
  if (url !== null) return url.href
  const found = 'a text that is not an http or https URL (not shown: it may hold a secret)'
  throw new InvalidValue(found, `an http or https URL, such as '${example}'`)
}
