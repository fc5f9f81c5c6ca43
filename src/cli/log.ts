import { type Logger, pino } from 'pino'
import { LOG_LEVELS } from '../config/environment.ts'
import { maskPasswords } from '../util/text.ts'
import { type Output, type Paint, type TextStyle } from './terminal.ts'
import { sanitize } from '../util/text.ts'

export interface LogOptions {
  readonly level: (typeof LOG_LEVELS)[number]
  /** Short lines for a person, or JSON for a program. */
  readonly format: 'short' | 'json'
  readonly output: Output
  /** Takes the secrets out of a line. */
  readonly mask: (text: string) => string
}

export function createLog({ level, format, output, mask }: LogOptions): Logger {
  const write = (line: string): void => {
    const safe = maskPasswords(mask(line))
    output.write(format === 'json' ? safe : formatLogLine(safe, output.paint))
  }
  const detailed = level === 'debug' || level === 'trace'
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: (error: unknown) => errorFields(error, detailed) },
  }
  return pino(options, { write })
}

/**
 * An error as a log holds it: not its other properties, because those of a database error may hold values of a row.
 */
function errorFields(error: unknown, detailed: boolean): object {
  if (!(error instanceof Error)) return { message: String(error) }
  const { name, message, stack } = error
  const { code } = error as { code?: unknown }
  return { name, message, ...(typeof code === 'string' && { code }), ...(detailed && { stack }) }
}

const STYLES: Readonly<Partial<Record<string, TextStyle>>> = {
  warn: 'warn',
  error: 'bad',
  fatal: 'bad',
  info: 'good',
}
const NAMES: readonly string[] = LOG_LEVELS
const LEVEL_COLUMNS = 5

/** `14:03:22 warn  waiting for Postgres  step=settle ms=400` out of pino's JSON. */
export function formatLogLine(json: string, paint: Paint): string {
  const { level, time, msg = '', err, ...fields } = JSON.parse(json) as Record<string, unknown>
  const date = new Date(String(time))
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((n) => String(n).padStart(2, '0'))
    .join(':')
  const name = NAMES.includes(String(level)) ? String(level) : 'info'
  const label = name.padEnd(LEVEL_COLUMNS)
  const style = STYLES[name]
  const error = isObject(err) ? [['error', err['message']] as const] : []
  const rest = [...Object.entries(fields), ...error]
    .filter(([, value]) => isBrief(value))
    .map(([key, value]) => `${key}=${valueText(value)}`)
    .join(' ')
  const stack = isObject(err) && typeof err['stack'] === 'string' ? `${err['stack']}\n` : ''
  const start = `${paint('quiet', clock)} ${style === undefined ? label : paint(style, label)} ${sanitize(String(msg))}`
  return `${start}${rest === '' ? '' : `  ${paint('quiet', rest)}`}\n${stack}`
}

/** Nothing and whole objects are for programs. */
const isBrief = (value: unknown): boolean => value !== null && (!isObject(value) || Array.isArray(value))

/** In quotes only where it would be hard to tell where it ends. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(',')
  const text = sanitize(typeof value === 'string' ? value : JSON.stringify(value))
  return typeof value === 'string' && /[\s="]/.test(text) ? JSON.stringify(text) : text
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Names of variables whose values must never be seen. */
const SECRET = [
  'FILLRATE_API_KEY',
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_NOTIFY_URL',
  'FILLRATE_NOTIFY_SECRET',
] as const

/** A shorter one would blot out half of every text, and is no secret worth the name. */
const SHORTEST = 6

/**
 * Takes the secrets of an environment out of a text. No message should hold one to begin with: this is for the message
 * of a library, or of a program error, that nobody has foreseen.
 */
export function createSecretMask(env: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = SECRET.flatMap((name) => (env[name] ?? '').split(',').map((one) => one.trim()))
  const addresses = ['DATABASE_URL', 'HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy']
  const password = addresses.flatMap((name) => passwordOf(env[name]))
  const hidden = [...secrets, ...password].filter((one) => one.length >= SHORTEST)
  // The longest first: one may begin with another.
  const sorted = [...new Set(hidden)].sort((a, b) => b.length - a.length)
  return (text) => sorted.reduce((masked, secret) => masked.replaceAll(secret, '***'), text)
}

function passwordOf(url: string | undefined): string[] {
  const password = URL.parse(url ?? '')?.password ?? ''
  if (password === '') return []
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    return [password]
  }
}
