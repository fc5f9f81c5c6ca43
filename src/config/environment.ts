import {
  type DashboardToken,
  InvalidValue,
  parseAddress,
  parseDatabaseUrl,
  parseHost,
  parseSecretAddress,
  parseSecrets,
  parseTokens,
  parseWhole,
  parseWord,
} from './env-values.ts'
import { ConfigProblems, describeUnset, type Problem } from './problems.ts'
import { editDistance, toVariablePart } from '../util/text.ts'
import { isOAuth } from '../domain/service/auth.ts'
import type { Service } from '../domain/service/service.ts'
import { isLoopbackUrl } from '../util/url.ts'

const AUTH_STYLES = ['bearer', 'x-api-key', 'basic', 'query'] as const
type AuthStyle = (typeof AUTH_STYLES)[number]

/** The log levels of pino. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof LOG_LEVELS)[number]

/** What the environment has of a service: its address and its secrets. */
interface ServiceEnvironment {
  /** The service's URL, without a trailing slash. */
  readonly baseUrl: string | null
  /** Newest first. */
  readonly apiKeys: readonly string[]
  readonly auth: AuthStyle
  /** Newest first. */
  readonly webhookSecrets: readonly string[]
}

/** Settings from the environment: URLs, secrets, and where to listen. Null: not set. */
export interface Environment extends ServiceEnvironment {
  /** What begins the variables of the service: absent for `FILLRATE_`, `FILLRATE_ACME_` for a service named acme. */
  readonly prefix?: string
  /** Of services that have a name, by the prefix of their variables; absent if there are none. */
  readonly services?: Readonly<Record<string, ServiceEnvironment>>
  readonly databaseUrl: string | null
  /** Largest number of connections to Postgres. Null: 10. */
  readonly maxConnections: number | null
  /** The URL at which the service reaches the receiver, without a trailing slash. */
  readonly publicUrl: string | null
  /** 0: any free port. */
  readonly port: number | null
  /** The address to listen on. Null: loopback. */
  readonly host: string | null
  /** Of operators and readers. Empty: the dashboard is open on loopback only. */
  readonly dashboardTokens: readonly DashboardToken[]
  /** Where people open the dashboard, without a trailing slash. Default: the public URL. */
  readonly dashboardUrl: string | null
  /** What this installation is called in notifications: `production`. */
  readonly name: string | null
  /** Where notifications go if the configuration names no URL. */
  readonly notifyUrl: string | null
  /** Sign JSON notifications; newest first, and the first one signs. */
  readonly notifySecrets: readonly string[]
  readonly logLevel: LogLevel
  /** From HTTPS_PROXY, HTTP_PROXY and NO_PROXY; absent if no proxy is set. */
  readonly proxies?: {
    readonly http: string | null
    readonly https: string | null
    readonly noProxy: string
  }
}

/** The environment variables, as help describes them. */
export const ENVIRONMENT_VARIABLES = {
  DATABASE_URL: 'the CRM database, postgres://user:password@host/name',
  FILLRATE_MAX_CONNECTIONS: 'largest number of connections to Postgres; default: 10',
  FILLRATE_BASE_URL: 'base URL of the enrichment service',
  FILLRATE_API_KEY: 'API key(s), comma-separated, newest first; id:secret for a client of OAuth',
  FILLRATE_AUTH: 'bearer (default), x-api-key, basic or query',
  FILLRATE_WEBHOOK_SECRET:
    'webhook signing secret(s), comma-separated; only for results that are delivered by webhook',
  FILLRATE_PUBLIC_URL:
    'public URL of the webhook receiver; only for results that are delivered by webhook, from another machine',
  FILLRATE_PORT: 'port of the webhook receiver; default: any free port',
  FILLRATE_HOST: 'listen address of the receiver; default: 127.0.0.1',
  FILLRATE_DASHBOARD_TOKEN: 'token(s) of operators for dashboard and metrics; required outside loopback',
  FILLRATE_DASHBOARD_READ_TOKEN: 'token(s) that only read the dashboard and metrics',
  FILLRATE_DASHBOARD_URL:
    'address of the dashboard, for the links of notifications; default: FILLRATE_PUBLIC_URL',
  FILLRATE_ENVIRONMENT: 'name of this installation in notifications, such as production',
  FILLRATE_NOTIFY_URL: 'default notification URL',
  FILLRATE_NOTIFY_SECRET: 'notification signing secret',
  LOG_LEVEL: 'trace, debug, info, warn, error, fatal or silent',
  HTTPS_PROXY: 'proxy for the service',
  HTTP_PROXY: 'proxy for URLs without TLS',
  NO_PROXY: 'hosts to reach without a proxy',
  NO_COLOR: 'disable colours (any value)',
} as const satisfies Readonly<Record<string, string>>

/** What there is for each service; where services have names, `FILLRATE_ACME_API_KEY` and so on. */
const SERVICE_VARIABLES = ['BASE_URL', 'API_KEY', 'AUTH', 'WEBHOOK_SECRET'] as const
type ServiceVariable = (typeof SERVICE_VARIABLES)[number]

/** The name of a variable of a service. @param serviceName null: it is the only one */
export const variableFor = (serviceName: string | null, name: ServiceVariable): string =>
  variableOf(serviceName === null ? {} : { prefix: toPrefix(serviceName) }, name)

const toPrefix = (serviceName: string): string => `FILLRATE_${toVariablePart(serviceName)}_`

/** The name of a variable of the service that an environment is for. */
export const variableOf = ({ prefix = 'FILLRATE_' }: Pick<Environment, 'prefix'>, name: ServiceVariable) =>
  `${prefix}${name}`

/** The environment as a service sees it. @param serviceName null: it is the only one */
export function environmentOf(environment: Environment, serviceName: string | null): Environment {
  if (serviceName === null) return environment
  const prefix = toPrefix(serviceName)
  return { ...environment, ...(environment.services?.[prefix] ?? NOT_SET), prefix }
}

const NOT_SET: ServiceEnvironment = {
  baseUrl: null,
  apiKeys: [],
  auth: 'bearer',
  webhookSecrets: [],
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
 * Reads and checks the environment variables; an empty one counts as not set. Messages never contain a secret. Whether
 * a missing value is required is decided by each command.
 *
 * @throws ConfigProblems
 */
export function readEnvironment(env: NodeJS.ProcessEnv): Environment {
  const problems: Problem[] = findMisspelled(env)
  const read = <Value>(name: string, parse: (text: string) => Value): Value | null => {
    // Proxy variables exist in lower case too, which takes precedence, as everywhere.
    const text = ((name.endsWith('_PROXY') ? env[name.toLowerCase()] : null) ?? env[name])?.trim()
    if (text === undefined || text === '') return null
    try {
      return parse(text)
    } catch (error) {
      if (!(error instanceof InvalidValue)) throw error
      problems.push({ place: name, found: error.found, expected: error.expected, todo: error.todo })
      return null
    }
  }
  const [http, https] = [read('HTTP_PROXY', parseProxy), read('HTTPS_PROXY', parseProxy)]
  const noProxy = read('NO_PROXY', String) ?? ''
  const publicUrl = read('FILLRATE_PUBLIC_URL', (text) =>
    parseAddress(text, { of: 'receiver', leaveOff: '/webhooks/enrichment' }),
  )
  const services = listServicePrefixes(env).map((prefix) => [prefix, readService(prefix, read)] as const)
  const environment: Environment = {
    ...(services.length > 0 && { services: Object.fromEntries(services) }),
    databaseUrl: read('DATABASE_URL', parseDatabaseUrl),
    // Two at least, so that a long statement does not hold the only connection.
    maxConnections: read('FILLRATE_MAX_CONNECTIONS', (text) => parseWhole(text, 'connections', 2, 1_000)),
    ...readService('FILLRATE_', read),
    publicUrl,
    port: read('FILLRATE_PORT', (text) => parseWhole(text, 'a port, 0 for any that is free', 0, 65_535)),
    host: read('FILLRATE_HOST', parseHost),
    dashboardTokens: [
      ...(read('FILLRATE_DASHBOARD_TOKEN', (text) => parseTokens(text, 'operator')) ?? []),
      ...(read('FILLRATE_DASHBOARD_READ_TOKEN', (text) => parseTokens(text, 'reader')) ?? []),
    ],
    dashboardUrl:
      read('FILLRATE_DASHBOARD_URL', (text) => parseAddress(text, { of: 'dashboard', leaveOff: '/runs' })) ??
      publicUrl,
    name: read('FILLRATE_ENVIRONMENT', String),
    notifyUrl: read('FILLRATE_NOTIFY_URL', (text) =>
      parseSecretAddress(text, 'https://ops.example.com/fillrate'),
    ),
    notifySecrets: read('FILLRATE_NOTIFY_SECRET', parseSigningSecrets) ?? [],
    logLevel: read('LOG_LEVEL', (text) => parseWord(text, LOG_LEVELS)) ?? 'info',
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

const parseSigningSecrets = (text: string): readonly string[] =>
  parseSecrets(text, 'secret', { isSent: false })

type ReadVariable = <Value>(name: string, parse: (text: string) => Value) => Value | null

/** @param prefix of the service's variables */
function readService(prefix: string, read: ReadVariable): ServiceEnvironment {
  const name = (variable: ServiceVariable): string => variableOf({ prefix }, variable)
  return {
    baseUrl: read(name('BASE_URL'), (text) => parseAddress(text, { of: 'service', leaveOff: '/v1' })),
    apiKeys: read(name('API_KEY'), (text) => parseSecrets(text, 'key', { isSent: true })) ?? [],
    auth: read(name('AUTH'), (text) => parseWord(text, AUTH_STYLES)) ?? 'bearer',
    webhookSecrets: read(name('WEBHOOK_SECRET'), parseSigningSecrets) ?? [],
  }
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
      (one) => env[one] === undefined && (name === `FILLRATE_${one}` || editDistance(name, one) === 1),
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

/** What is wrong with the environment for a service whose key is the id and the secret of a client. */
export function checkClient(
  { auth }: Pick<Service, 'auth'>,
  environment: Pick<Environment, 'apiKeys' | 'baseUrl' | 'prefix'>,
): Problem[] {
  const { apiKeys, baseUrl } = environment
  if (!isOAuth(auth)) return []
  const problems: Problem[] = []
  const [client] = apiKeys
  if (client !== undefined && (apiKeys.length > 1 || !/^[^:]+:./.test(client)))
    problems.push({
      place: variableOf(environment, 'API_KEY'),
      found:
        apiKeys.length > 1
          ? `${apiKeys.length} clients (not shown)`
          : 'a key without an id or a secret (not shown)',
      expected: "one client's id and secret as id:secret, because the service issues tokens (`auth.oauth`)",
      todo: 'Put a colon between the id and the secret, and leave out other clients.',
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
