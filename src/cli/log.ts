import { type Logger, pino } from 'pino'
import { LOG_LEVELS } from '../config/environment.ts'
import { maskPasswords } from '../util/text.ts'
import { type Output, type Paint, type TextStyle } from './terminal.ts'
import { sanitize } from '../util/text.ts'

export interface LogOptions {
  readonly level: (typeof LOG_LEVELS)[number]
  /** Short lines for people, or JSON. */
  readonly format: 'short' | 'json'
  readonly output: Output
  /** Removes secrets from a line. */
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
 * The logged fields of an error. Other properties are left out: those of a database error can contain values of a row.
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

/** Formats a line of pino's JSON: `14:03:22 warn  waiting for Postgres  step=settle ms=400`. */
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

/** Null and objects are shown in JSON logs only. */
const isBrief = (value: unknown): boolean => value !== null && (!isObject(value) || Array.isArray(value))

/** Quoted only if its end would be ambiguous. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(',')
  const text = sanitize(typeof value === 'string' ? value : JSON.stringify(value))
  return typeof value === 'string' && /[\s="]/.test(text) ? JSON.stringify(text) : text
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null
