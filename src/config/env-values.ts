import { isIP } from 'node:net'
import { didYouMean, oneOf, quoteText } from '../util/text.ts'

/** A parsed value, or the parts of an error message. `found` must not reveal a secret. */
export type EnvValue<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly found: string; readonly expected: string; readonly todo?: string }

/** One of a few words, in any case. */
export function parseWord<const Word extends string>(text: string, words: readonly Word[]): EnvValue<Word> {
  const value = words.find((word) => word === text.toLowerCase())
  if (value !== undefined) return { ok: true, value }
  const todo = didYouMean(text, words)
  return { ok: false, found: quoteText(text), expected: oneOf(words), ...(todo === null ? {} : { todo }) }
}

export function parsePort(text: string): EnvValue<number> {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port <= 65_535) return { ok: true, value: port }
  return {
    ok: false,
    found: quoteText(text),
    expected: 'a port: a whole number from 0 to 65535, 0 for any that is free',
  }
}

/** Two at least, so that a long statement does not hold the only connection. */
export function parseMaxConnections(text: string): EnvValue<number> {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (count >= 2 && count <= 1_000) return { ok: true, value: count }
  return { ok: false, found: quoteText(text), expected: 'a number of connections from 2 to 1000' }
}

export function parseHost(text: string): EnvValue<string> {
  const host = text.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 || /^(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}$/i.test(host))
    return { ok: true, value: host }
  const expected = "an address or host to listen on, such as '127.0.0.1' or '0.0.0.0'"
  const hasMore = /[:/]/.test(host)
  return {
    ok: false,
    found: quoteText(text),
    expected,
    ...(hasMore ? { todo: 'The port goes into FILLRATE_PORT.' } : {}),
  }
}

/** Comma-separated secrets. `sendable`: they are sent in a header, so only visible ASCII is allowed. */
export function parseSecrets(
  text: string,
  what: string,
  { sendable }: { sendable: boolean },
): EnvValue<readonly string[]> {
  const secrets = text
    .split(',')
    .map((secret) => secret.trim())
    .filter((secret) => secret !== '')
  for (const [index, secret] of secrets.entries()) {
    const wrong = describeSecretProblem(secret, sendable)
    if (wrong === null) continue
    const number = secrets.length === 1 ? '' : `, number ${index + 1} of ${secrets.length},`
    return {
      ok: false,
      found: `a ${what}${number} ${wrong} (not shown)`,
      expected: `the ${what} as issued to you; several, newest first, separated by commas`,
    }
  }
  return { ok: true, value: secrets }
}

/** One secret that is sent in a header or a query. */
export function parseSecretValue(text: string): EnvValue<string> {
  const wrong = describeSecretProblem(text, true)
  if (wrong === null) return { ok: true, value: text }
  return { ok: false, found: `a value ${wrong} (not shown)`, expected: 'the value as issued to you' }
}

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
export function parseTokens(text: string, role: DashboardToken['role']): EnvValue<readonly DashboardToken[]> {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const tokens = parts.map((part): DashboardToken => {
    const [, name = role, secret = part] = NAMED_TOKEN.exec(part) ?? []
    return { name, role, secret }
  })
  for (const [n, { secret }] of tokens.entries()) {
    const wrong =
      describeSecretProblem(secret, true) ??
      (secret.length < MIN_TOKEN_LENGTH ? `of ${secret.length} characters` : null)
    if (wrong === null) continue
    return {
      ok: false,
      found: `a token${parts.length === 1 ? '' : `, number ${n + 1} of ${parts.length},`} ${wrong} (not shown)`,
      expected: `${MIN_TOKEN_LENGTH} visible ASCII characters or more, without white space or comma; several as 'anna:TOKEN,ben:TOKEN'`,
      todo: 'Make one with `openssl rand -hex 32`.',
    }
  }
  return { ok: true, value: tokens }
}

function describeSecretProblem(secret: string, sendable: boolean): string | null {
  // Docker's --env-file keeps the quotes that a shell would take off.
  if (/^(["']).*\1$/s.test(secret)) return 'in quotes'
  if (!sendable) return null
  if (/^bearer\s/i.test(secret)) return 'with the word Bearer before it'
  if (/\s/.test(secret)) return 'with white space in it'
  return /^[\x21-\x7e]+$/.test(secret) ? null : 'with characters that a header cannot hold'
}

/** Schemes that an error may show; any other could be part of a password. */
const KNOWN_SCHEMES: ReadonlySet<string> = new Set([
  'http',
  'https',
  'mysql',
  'mariadb',
  'mssql',
  'mongodb',
  'redis',
])

const EXPECTED_DATABASE_URL = "a URL such as 'postgres://user:password@localhost:5432/crm'"

/** A Postgres URL, unchanged. Errors do not show it, since it may hold a password. */
export function parseDatabaseUrl(text: string): EnvValue<string> {
  const reject = (found: string, todo?: string): EnvValue<string> => ({
    ok: false,
    found: `${found} (not shown: it may hold a password)`,
    expected: EXPECTED_DATABASE_URL,
    ...(todo === undefined ? {} : { todo }),
  })
  const encode =
    'In the user name and the password, write @ as %40, : as %3A, / as %2F, # as %23, ? as %3F and % as %25.'
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase()
  if (scheme === undefined) return reject('no connection URL: it must start with postgres://')
  if (scheme !== 'postgres' && scheme !== 'postgresql')
    return reject(KNOWN_SCHEMES.has(scheme) ? `a ${scheme}:// URL` : 'a URL with another scheme')
  const url = URL.parse(text)
  if (url === null || /\s/.test(text)) return reject('a URL that cannot be read', encode)
  // The first / ? or # ends the host, so an unescaped one in the password leaves its @ behind.
  if (/@/.test(url.pathname) || url.hash !== '' || /^\?[^=]*@/.test(url.search)) {
    return reject('a URL whose password seems to hold a /, ? or #', encode)
  }
  return { ok: true, value: text }
}

interface AddressRole {
  readonly of: 'service' | 'receiver' | 'dashboard'
  /** A path suffix that Fillrate adds itself. */
  readonly leaveOff: string
  /** The variable of the service's key. */
  readonly key?: string
}

/** An http or https URL, without a trailing slash. */
export function parseAddress(
  text: string,
  { of, leaveOff, key = 'FILLRATE_API_KEY' }: AddressRole,
): EnvValue<string> {
  const example = of === 'service' ? 'https://api.example.com' : 'https://fillrate.example.com'
  const reject = (found: string, todo?: string): EnvValue<string> => ({
    ok: false,
    found,
    expected: `the ${of}'s http or https URL, such as '${example}'`,
    ...(todo === undefined ? {} : { todo }),
  })
  const url = URL.parse(text)
  if (url !== null && (url.username !== '' || url.password !== '')) {
    return reject(
      'a URL with a user name or a password (not shown)',
      `Leave them out; a key goes into ${key}.`,
    )
  }
  if (url !== null && (url.search !== '' || url.hash !== '')) {
    const todo =
      of === 'service'
        ? `Leave it out; a key goes into ${key}, with ${key.replace(/API_KEY$/, 'AUTH')}=query.`
        : 'Leave it out.'
    return reject('a URL with a query or a fragment (not shown: it may hold a key)', todo)
  }
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return reject(
      quoteText(text),
      /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? undefined : 'Start it with https:// or http://.',
    )
  }
  const address = url.href.replace(/\/+$/, '')
  if (address.endsWith(leaveOff))
    return reject(quoteText(text), `Leave ${leaveOff} off: it is added to every URL.`)
  return { ok: true, value: address }
}

const MAX_LABEL_LENGTH = 60

/** A short name for people, on one line. */
export function parseLabel(text: string): EnvValue<string> {
  if (text.length <= MAX_LABEL_LENGTH && /^[^\p{C}]+$/u.test(text)) return { ok: true, value: text }
  return {
    ok: false,
    found: quoteText(text),
    expected: `a name of at most ${MAX_LABEL_LENGTH} characters on one line, such as 'production'`,
  }
}

/** An http or https URL that may itself be a secret, as Slack's are: unchanged, and never shown. */
export function parseSecretAddress(text: string): EnvValue<string> {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return { ok: true, value: url.href }
  return {
    ok: false,
    found: 'a text that is not an http or https URL (not shown: it may be a secret)',
    expected: "an http or https URL, such as 'https://ops.example.com/fillrate'",
  }
}

/** The URL of a proxy, which may hold a password. Without a scheme, http is assumed, as everywhere. */
export function parseProxy(text: string): EnvValue<string> {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  if (url !== null && /^https?:$/.test(url.protocol)) return { ok: true, value: url.href }
  return {
    ok: false,
    found: 'a text that is not an http or https URL (not shown: it may hold a password)',
    expected: "the URL of an HTTP proxy, such as 'http://proxy.example.com:3128'",
  }
}
