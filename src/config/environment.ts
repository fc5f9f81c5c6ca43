import { isIP } from 'node:net'
import { ConfigProblems, describeUnset, type Problem } from './problems.ts'
import { didYouMean, editDistance, oneOf, quoteText, toVariable, isLoopbackUrl } from '../util/text.ts'
import { AUTH_STYLES, isOAuth, type AuthStyle, type ServiceAuth } from '../domain/service/auth.ts'
import type { Service } from '../domain/service/service.ts'

/** The log levels of pino. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** Settings from the environment: URLs, secrets, and where to listen. Null: not set. */
export interface Environment extends ReturnType<typeof readEnvironment> {
  /** What begins the variables of the service: absent for `FILLRATE_`, `FILLRATE_ACME_` for a service named acme. */
  readonly prefix?: string
}

/** The environment variables, as help describes them. */
export const ENVIRONMENT_VARIABLES = {
  DATABASE_URL: 'the CRM database, postgres://user:password@host/name',
  FILLRATE_MAX_CONNECTIONS: 'largest number of connections to Postgres; default: 10',
  FILLRATE_BASE_URL: 'base URL of the enrichment service',
  FILLRATE_API_KEY: 'The API key; id:secret for a client of OAuth',
  FILLRATE_AUTH: 'bearer (default), x-api-key, basic or query',
  FILLRATE_WEBHOOK_SECRET: 'webhook signing secret(s), comma-separated',
  FILLRATE_PUBLIC_URL: 'URL at which a service on another machine reaches the webhook receiver',
  FILLRATE_PORT: 'port of the webhook receiver; default: any free port',
  FILLRATE_HOST: 'listen address of the receiver; default: 127.0.0.1',
  FILLRATE_DASHBOARD_TOKEN: 'token(s) of operators for dashboard and metrics; required outside loopback',
  FILLRATE_DASHBOARD_READ_TOKEN: 'token(s) that only read the dashboard and metrics',
  FILLRATE_DASHBOARD_URL:
    'address of the dashboard, for the links of notifications; default: FILLRATE_PUBLIC_URL',
  FILLRATE_NOTIFY_URL: 'default notification URL',
  LOG_LEVEL: 'trace, debug, info, warn, error, fatal or silent',
  HTTPS_PROXY: 'proxy for the service',
  HTTP_PROXY: 'proxy for URLs without TLS',
  NO_PROXY: 'hosts to reach without a proxy',
  NO_COLOR: 'disable colours (any value)',
} as const satisfies Readonly<Record<string, string>>

/** What there is for each service; where services have names, `FILLRATE_ACME_API_KEY` and so on. */
const SERVICE_VARIABLES = ['BASE_URL', 'API_KEY', 'AUTH', 'WEBHOOK_SECRET'] as const
type ServiceVariable = (typeof SERVICE_VARIABLES)[number]

/** The name of a variable of the service that an environment is for. */
export const variableOf = ({ prefix = 'FILLRATE_' }: Pick<Environment, 'prefix'>, name: ServiceVariable) =>
  `${prefix}${name}`

/** The environment as a service sees it. @param serviceName null: it is the only one */
export function environmentOf(environment: Environment, serviceName: string | null): Environment {
  if (serviceName === null) return environment
  const prefix = toVariable(serviceName, '')
  return { ...environment, ...(environment.services?.[prefix] ?? readService(prefix, () => null)), prefix }
}

const NAMED_VARIABLE = new RegExp(`^(FILLRATE_[A-Z0-9_]+_)(?:${SERVICE_VARIABLES.join('|')})$`)

/** The prefixes of the variables of services with names. */
export const listServicePrefixes = (env: NodeJS.ProcessEnv): string[] => [
  ...new Set(
    Object.keys(env).flatMap((name) =>
      Object.hasOwn(ENVIRONMENT_VARIABLES, name) ? [] : (NAMED_VARIABLE.exec(name)?.[1] ?? []),
    ),
  ),
]

/**
 * Reads and checks the environment variables; an empty one counts as not set. Messages never contain a
 * secret. Whether a missing value is required is decided by each command.
 *
 * @throws ConfigProblems
 */
export function readEnvironment(env: NodeJS.ProcessEnv) {
  const problems: Problem[] = findMisspelled(env)
  const read = <Value>(name: string, parse: (text: string) => Value): Value | null => {
    // Proxy variables exist in lower case too, which takes precedence, as everywhere.
    const text = ((name.endsWith('_PROXY') ? env[name.toLowerCase()] : null) ?? env[name])?.trim()
    if (text === undefined || text === '') return null
    try {
      return parse(text)
    } catch (error) {
      if (!(error instanceof InvalidValue)) throw error
      problems.push({ place: name, ...error.problem })
      return null
    }
  }
  const [http, https] = [read('HTTP_PROXY', parseProxy), read('HTTPS_PROXY', parseProxy)]
  const noProxy = read('NO_PROXY', String) ?? ''
  const publicUrl = read('FILLRATE_PUBLIC_URL', (text) =>
    parseAddress(text, { of: 'receiver', leaveOff: '/webhooks/enrichment' }),
  )
  const services = listServicePrefixes(env).map((prefix) => [prefix, readService(prefix, read)] as const)
  const environment = {
    // Of services that have a name, by the prefix of their variables; absent if there are none.
    ...(services.length > 0 && { services: Object.fromEntries(services) }),
    databaseUrl: read('DATABASE_URL', parseDatabaseUrl),
    /** Largest number of connections to Postgres; two at least, so that a long statement does not hold the only one. Null: 10. */
    maxConnections: read('FILLRATE_MAX_CONNECTIONS', (text) => parseWhole(text, 'connections', 2, 1_000)),
    ...readService('FILLRATE_', read),
    /** The URL at which the service reaches the receiver, without a trailing slash. */
    publicUrl,
    /** 0: any free port. */
    port: read('FILLRATE_PORT', (text) => parseWhole(text, 'a port, 0 for any that is free', 0, 65_535)),
    /** The address to listen on. Null: loopback. */
    host: read('FILLRATE_HOST', parseHost),
    /** Of operators and readers. Empty: the dashboard is open on loopback only. */
    dashboardTokens: [
      ...(read('FILLRATE_DASHBOARD_TOKEN', (text) => parseTokens(text, 'operator')) ?? []),
      ...(read('FILLRATE_DASHBOARD_READ_TOKEN', (text) => parseTokens(text, 'reader')) ?? []),
    ] as readonly DashboardToken[],
    /** Where people open the dashboard, without a trailing slash. Default: the public URL. */
    dashboardUrl:
      read('FILLRATE_DASHBOARD_URL', (text) => parseAddress(text, { of: 'dashboard', leaveOff: '/runs' })) ??
      publicUrl,
    /** Where notifications go if the configuration names no URL. */
    notifyUrl: read('FILLRATE_NOTIFY_URL', (text) =>
      parseSecretAddress(text, 'https://ops.example.com/fillrate'),
    ),
    /** Null: it depends on the command. */
    logLevel: read('LOG_LEVEL', (text) => parseWord(text, LOG_LEVELS)),
    // Absent if no proxy is set.
    ...((http !== null || https !== null) && { proxies: { http, https, noProxy } }),
  }
  if (problems.length > 0) throw new ConfigProblems('the environment', problems)
  return environment
}

/** Without a scheme, http is assumed, as everywhere. */
const parseProxy = (text: string): string =>
  parseSecretAddress(
    /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`,
    'http://proxy.example.com:3128',
  )

type ReadVariable = <Value>(name: string, parse: (text: string) => Value) => Value | null

/** What the environment has of a service: its address and its secrets. */
function readService(prefix: string, read: ReadVariable) {
  const name = (variable: ServiceVariable): string => variableOf({ prefix }, variable)
  return {
    /** Without a trailing slash. */
    baseUrl: read(name('BASE_URL'), (text) => parseAddress(text, { of: 'service', leaveOff: '/v1' })),
    apiKey: read(name('API_KEY'), parseKey),
    auth: read(name('AUTH'), (text) => parseWord(text, AUTH_STYLES)) ?? 'bearer',
    /** Newest first. */
    webhookSecrets: read(name('WEBHOOK_SECRET'), parseSigningSecrets) ?? [],
  }
}

/** A value of the environment that cannot be used. `found` must not reveal a secret. */
class InvalidValue extends Error {
  readonly problem: Omit<Problem, 'place'>

  constructor(found: string, expected: string, todo: string | null = null) {
    super(found)
    this.problem = { found, expected, todo }
  }
}

// Each parser throws an InvalidValue.

/** One of a few words, in any case. */
function parseWord<const Word extends string>(text: string, words: readonly Word[]): Word {
  const value = words.find((word) => word === text.toLowerCase())
  if (value !== undefined) return value
  throw new InvalidValue(quoteText(text), oneOf(words), didYouMean(text, words))
}

function parseWhole(text: string, what: string, least: number, most: number): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new InvalidValue(quoteText(text), `${what}: a whole number from ${least} to ${most}`)
}

function parseHost(text: string): string {
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

/** The key is sent in a header. */
function parseKey(text: string): string {
  const wrong = text.includes(',') ? 'with a comma in it' : describeSecretProblem(text, true)
  if (wrong === null) return text
  throw new InvalidValue(`a key ${wrong} (not shown)`, 'one key, as issued to you')
}

/** Comma-separated secrets. */
function parseSigningSecrets(text: string): readonly string[] {
  const secrets = splitList(text)
  for (const [n, secret] of secrets.entries()) {
    const wrong = describeSecretProblem(secret, false)
    if (wrong !== null)
      throw new InvalidValue(
        `a secret${numberOf(n, secrets)} ${wrong} (not shown)`,
        'the secret as issued to you; several, newest first, separated by commas',
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
function parseTokens(text: string, role: DashboardToken['role']): readonly DashboardToken[] {
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
function parseDatabaseUrl(text: string): string {
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
function parseAddress(text: string, { of, leaveOff }: AddressRole): string {
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
function parseSecretAddress(text: string, example: string): string {
  const url = parseHttpUrl(text)
  if (url !== null) return url.href
  const found = 'a text that is not an http or https URL (not shown: it may hold a secret)'
  throw new InvalidValue(found, `an http or https URL, such as '${example}'`)
}

/** @throws ConfigProblems if DATABASE_URL is not set */
export function requireDatabaseUrl({ databaseUrl }: Pick<Environment, 'databaseUrl'>): string {
  if (databaseUrl !== null) return databaseUrl
  const expected = 'the URL of the CRM database, postgres://user:password@host:5432/name'
  throw new ConfigProblems('the environment', [describeUnset('DATABASE_URL', expected)])
}

/** Finds names one typing error away from an unset variable, which would be ignored silently. */
function findMisspelled(env: NodeJS.ProcessEnv): Problem[] {
  const known = Object.keys(ENVIRONMENT_VARIABLES)
  return Object.keys(env).flatMap((name) => {
    if (!name.startsWith('FILLRATE_') || known.includes(name) || NAMED_VARIABLE.test(name)) return []
    const intended = known.find(
      (other) =>
        env[other] === undefined && (name === `FILLRATE_${other}` || editDistance(name, other) === 1),
    )
    if (intended === undefined) return []
    return [
      { place: name, found: 'an unknown variable', expected: intended, todo: `Rename it to ${intended}.` },
    ]
  })
}

/** Values of the headers of all descriptions that this process has read: nothing shows them. */
const sentValues = new Set<string>()

export const listSentValues = (): readonly string[] => [...sentValues]

/** From now on the values of the headers that a description sends are masked where a variable holds them. */
export function maskSentValues({ headers }: Pick<Service, 'headers'>): void {
  for (const value of Object.values(headers)) sentValues.add(value)
}

/** The header that sends the key; null: the query does. */
function toKeyHeader(auth: ServiceAuth | AuthStyle): string | null {
  if (typeof auth === 'object' && 'header' in auth) return auth.header.toLowerCase()
  if (auth === 'query' || (typeof auth === 'object' && 'query' in auth)) return null
  return auth === 'x-api-key' ? auth : 'authorization'
}

/** What is wrong with the environment for a service: a header that sends two things, a client's id or secret that is missing. */
export function checkClient(
  { auth, headers }: Pick<Service, 'auth' | 'headers'>,
  environment: Pick<Environment, 'apiKey' | 'auth' | 'baseUrl' | 'prefix'>,
): Problem[] {
  const { apiKey, baseUrl } = environment
  const keyHeader = toKeyHeader(auth ?? environment.auth)
  const problems: Problem[] = Object.keys(headers)
    .filter((name) => name.toLowerCase() === keyHeader)
    .map((name) => ({
      place: `headers.${name}`,
      found: 'a constant in the header that sends the key',
      expected: `the key in ${variableOf(environment, 'API_KEY')}, and in \`auth\` how it is sent`,
      todo: `Take the header out. A scheme before the key: auth: { header: '${name}', prefix: 'Basic ' }.`,
    }))
  if (!isOAuth(auth)) return problems
  if (apiKey !== null && !/^[^:]+:./.test(apiKey))
    problems.push({
      place: variableOf(environment, 'API_KEY'),
      found: 'a key without an id or a secret (not shown)',
      expected: "a client's id and secret as id:secret, because the service issues tokens (`auth.oauth`)",
      todo: 'Put a colon between the id and the secret.',
    })
  const isBelow = auth.oauth.tokenUrl.startsWith('/')
  if (isBelow && baseUrl?.startsWith('http:') && !isLoopbackUrl(baseUrl))
    problems.push({
      place: variableOf(environment, 'BASE_URL'),
      found: `${baseUrl}, without TLS`,
      expected: "an https address, because the client's secret is sent to a path below it",
      todo: 'Use https, or give `auth.oauth.tokenUrl` as an https address.',
    })
  return problems
}
