import { readAddress, readDatabaseUrl, readProxy, readSecretAddress } from './addresses.ts'
import { ConfigProblems } from './problems.ts'
import { readHost, readPort, readSecrets, readToken, readWord } from './env-value.ts'
import type { Read } from './env-value.ts'
import type { Problem } from './problems.ts'
import { editDistance } from './suggest.ts'

const authStyles = ['bearer', 'x-api-key', 'basic', 'query'] as const
type AuthStyle = (typeof authStyles)[number]

/** The levels of pino, the logger. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof logLevels)[number]

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

const names = [
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
  const problems: Problem[] = misspelt(env)
  const read = <Value>(name: (typeof names)[number], parse: (text: string) => Read<Value>): Value | null => {
    // Proxies are named in lower case too, and that goes first, as everywhere.
    const text = ((name.endsWith('_PROXY') ? env[name.toLowerCase()] : null) ?? env[name])?.trim()
    if (text === undefined || text === '') return null
    const parsed = parse(text)
    if (parsed.ok) return parsed.value
    problems.push({ place: name, found: parsed.found, expected: parsed.expected, todo: parsed.todo ?? null })
    return null
  }
  const [http, https] = [read('HTTP_PROXY', readProxy), read('HTTPS_PROXY', readProxy)]
  const except = read('NO_PROXY', (text) => ({ ok: true, value: text })) ?? ''
  const environment: Environment = {
    databaseUrl: read('DATABASE_URL', readDatabaseUrl),
    baseUrl: read('FILLRATE_BASE_URL', (text) => readAddress(text, { of: 'service', leaveOff: '/v1' })),
    apiKeys: read('FILLRATE_API_KEY', (text) => readSecrets(text, 'key', { sendable: true })) ?? [],
    auth: read('FILLRATE_AUTH', (text) => readWord(text, authStyles)) ?? 'bearer',
    webhookSecrets:
      read('FILLRATE_WEBHOOK_SECRET', (text) => readSecrets(text, 'secret', { sendable: false })) ?? [],
    publicUrl: read('FILLRATE_PUBLIC_URL', (text) =>
      readAddress(text, { of: 'receiver', leaveOff: '/webhooks/enrichment' }),
    ),
    port: read('FILLRATE_PORT', readPort),
    host: read('FILLRATE_HOST', readHost),
    dashboardToken: read('FILLRATE_DASHBOARD_TOKEN', readToken),
    notifyUrl: read('FILLRATE_NOTIFY_URL', readSecretAddress),
    notifySecrets:
      read('FILLRATE_NOTIFY_SECRET', (text) => readSecrets(text, 'secret', { sendable: false })) ?? [],
    logLevel: read('LOG_LEVEL', (text) => readWord(text, logLevels)) ?? 'info',
    ...((http !== null || https !== null) && { proxies: { http, https, except } }),
  }
  if (problems.length > 0) throw new ConfigProblems('the environment', problems)
  return environment
}

/** A name that is one slip away from one that is not set: it would be ignored without a word. */
function misspelt(env: NodeJS.ProcessEnv): Problem[] {
  const known: readonly string[] = names
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
