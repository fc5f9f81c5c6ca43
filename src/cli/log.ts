import { hostname } from 'node:os'
import { pid } from 'node:process'
import { pino, type Logger } from 'pino'
import { LOG_LEVELS } from '../config/environment.ts'
import { isObject } from '../domain/json.ts'
import type { Output, Paint, TextStyle } from './terminal.ts'
import { describeError } from '../util/error-text.ts'
import { formatTime, maskPasswords, sanitize } from '../util/text.ts'
import { readVersion } from '../util/version.ts'

/** How lines are written: for programs, or for people. */
const LOG_FORMATS = ['json', 'pretty'] as const

interface LogOptions {
  readonly level: (typeof LOG_LEVELS)[number]
  readonly format: (typeof LOG_FORMATS)[number]
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
    base: { pid, hostname: hostname(), version: readVersion() },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: (error: unknown) => errorFields(error, detailed) },
  }
  return pino(options, { write })
}

/**
 * The logged fields of an error: a line above debug has no values, also at level debug. So the stack is
 * without the message, with which it begins.
 */
function errorFields(error: unknown, detailed: boolean): object {
  const message = describeError(error)
  if (!(error instanceof Error)) return { message }
  const { name, stack = '' } = error
  const { code } = error as { code?: unknown }
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line))
  return {
    name,
    message,
    ...(typeof code === 'string' && { code }),
    ...(detailed && { stack: [`${name}: ${message}`, ...frames].join('\n') }),
  }
}

const STYLES: Readonly<Partial<Record<string, TextStyle>>> = {
  warn: 'warn',
  error: 'bad',
  fatal: 'bad',
  info: 'good',
}
const NAMES: readonly string[] = LOG_LEVELS
const LEVEL_COLUMNS = 5

/**
 * Formats a line of pino's JSON: `2026-11-22 14:03:22 +01:00 warn  waiting for Postgres  event=postgres_waiting ms=400`.
 * The process is left out: it is that of the terminal.
 */
export function formatLogLine(json: string, paint: Paint): string {
  const line = JSON.parse(json) as Record<string, unknown>
  const { level, time, msg = '', err, pid: _, hostname: __, version: ___, ...fields } = line
  const clock = formatLocalTime(new Date(String(time)))
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

/** The local time with its offset from UTC, so that it can be compared with the log of another machine. */
function formatLocalTime(date: Date): string {
  const offset = -date.getTimezoneOffset()
  const pad = (n: number): string => String(Math.trunc(Math.abs(n))).padStart(2, '0')
  return `${formatTime(date)}:${pad(date.getSeconds())} ${offset < 0 ? '-' : '+'}${pad(offset / 60)}:${pad(offset % 60)}`
}

/** Null and objects are shown in JSON logs only. */
const isBrief = (value: unknown): boolean => value !== null && !isObject(value)

/** Quoted only if its end would be ambiguous. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(',')
  const text = sanitize(typeof value === 'string' ? value : JSON.stringify(value))
  return typeof value === 'string' && /[\s="]/.test(text) ? JSON.stringify(text) : text
}
