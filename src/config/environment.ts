import {
  type EnvValue,
  parseAddress,
  parseDatabaseUrl,
  parseHost,
  parsePort,
  parseProxy,
  parseSecretAddress,
  parseSecrets,
  parseToken,
  parseWord,
} from './env-values.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { editDistance } from '../util/text.ts'

const AUTH_STYLES = ['bearer', 'x-api-key', 'basic', 'query'] as const
type AuthStyle = (typeof AUTH_STYLES)[number]

/** The levels of pino, the logger. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof LOG_LEVELS)[number]

/** What comes from the environment: addresses, secrets, and where to listen. Null: not set. */
export interface Environment {
  readonly databaseUrl: string | null
  /** The service's, without a slash at its end. */
  readonly baseUrl: string | null
  /** Newest first. */
  readonly apiKeys: readonly string[]
  readonly auth: AuthStyle
  /** Newest first. */
  readonly webhookSecrets: readonly string[]
  /** Where the service reaches the receiver, without a slash at its end. */
  readonly publicUrl: string | null
  /** 0: any that is free. */
  readonly port: number | null
  /** Where to listen. Null: on loopback. */
  readonly host: string | null
  readonly dashboardToken: string | null
  /** Where to tell of runs and jobs, where the configuration names no address. */
  readonly notifyUrl: string | null
  /** What the JSON form of a notification is signed with; newest first, the first one signs. */
  readonly notifySecrets: readonly string[]
  readonly logLevel: LogLevel
  /** What HTTPS_PROXY, HTTP_PROXY and NO_PROXY name; left out where no proxy is set. */
  readonly proxies?: {
    readonly http: string | null
    readonly https: string | null
    readonly except: string
  }
}

const VARIABLE_NAMES = [
  'DATABASE_URL',
  'FILLRATE_BASE_URL',
  'FILLRATE_API_KEY',
  'FILLRATE_AUTH',
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_PUBLIC_URL',
  'FILLRATE_PORT',
  'FILLRATE_HOST',
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_NOTIFY_URL',
  'FILLRATE_NOTIFY_SECRET',
  'LOG_LEVEL',
  'HTTPS_PROXY',
  'HTTP_PROXY',
  'NO_PROXY',
] as const

/**
 * Reads and checks the environment variables. An empty one is not set. No value that is or holds a secret
 * appears in a message. Whether something that is missing is needed, each command decides.
 *
 * @throws ConfigProblems
 */
export function readEnvironment(env: NodeJS.ProcessEnv): Environment {
  const problems: Problem[] = findMisspelled(env)
  const read = <Value>(
    name: (typeof VARIABLE_NAMES)[number],
    parse: (text: string) => EnvValue<Value>,
  ): Value | null => {
    // Proxies are named in lower case too, and that goes first, as everywhere.
    const text = ((name.endsWith('_PROXY') ? env[name.toLowerCase()] : null) ?? env[name])?.trim()
    if (text === undefined || text === '') return null
    const parsed = parse(text)
    if (parsed.ok) return parsed.value
    problems.push({ place: name, found: parsed.found, expected: parsed.expected, todo: parsed.todo ?? null })
    return null
  }
  const [http, https] = [read('HTTP_PROXY', parseProxy), read('HTTPS_PROXY', parseProxy)]
  const except = read('NO_PROXY', (text) => ({ ok: true, value: text })) ?? ''
  const environment: Environment = {
    databaseUrl: read('DATABASE_URL', parseDatabaseUrl),
    baseUrl: read('FILLRATE_BASE_URL', (text) => parseAddress(text, { of: 'service', leaveOff: '/v1' })),
    apiKeys: read('FILLRATE_API_KEY', (text) => parseSecrets(text, 'key', { sendable: true })) ?? [],
    auth: read('FILLRATE_AUTH', (text) => parseWord(text, AUTH_STYLES)) ?? 'bearer',
    webhookSecrets:
      read('FILLRATE_WEBHOOK_SECRET', (text) => parseSecrets(text, 'secret', { sendable: false })) ?? [],
    publicUrl: read('FILLRATE_PUBLIC_URL', (text) =>
      parseAddress(text, { of: 'receiver', leaveOff: '/webhooks/enrichment' }),
    ),
    port: read('FILLRATE_PORT', parsePort),
    host: read('FILLRATE_HOST', parseHost),
    dashboardToken: read('FILLRATE_DASHBOARD_TOKEN', parseToken),
    notifyUrl: read('FILLRATE_NOTIFY_URL', parseSecretAddress),
    notifySecrets:
      read('FILLRATE_NOTIFY_SECRET', (text) => parseSecrets(text, 'secret', { sendable: false })) ?? [],
    logLevel: read('LOG_LEVEL', (text) => parseWord(text, LOG_LEVELS)) ?? 'info',
    ...((http !== null || https !== null) && { proxies: { http, https, except } }),
  }
  if (problems.length > 0) throw new ConfigProblems('the environment', problems)
  return environment
}

/** A name that is one slip away from one that is not set: it would be ignored without a word. */
function findMisspelled(env: NodeJS.ProcessEnv): Problem[] {
  const known: readonly string[] = VARIABLE_NAMES
  return Object.keys(env).flatMap((name) => {
    if (!name.startsWith('FILLRATE_') || known.includes(name)) return []
    const meant = known.find(
      (one) => env[one] === undefined && (name === `FILLRATE_${one}` || editDistance(name, one) === 1),
    )
    if (meant === undefined) return []
    return [
      {
        place: name,
        found: 'a variable that means nothing here',
        expected: meant,
        todo: `Rename it to ${meant}.`,
      },
    ]
  })
}
