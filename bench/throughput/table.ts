import { titles, type ContenderName } from './contender.ts'
import type { Bout } from './bout.ts'

/** The middle one; of an even number, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2
}

export const medianOf = (
  bouts: readonly Bout[],
  contender: ContenderName,
  of: (bout: Bout) => number,
): number => median(bouts.filter((bout) => bout.contender === contender).map(of))

/**
 * How many times as fast as the plain script: the median over the rounds of the ratio within each, so that what slows
 * the whole machine for a while changes it little.
 */
export function timesAsFast(bouts: readonly Bout[], contender: ContenderName): number {
  const speeds = (of: ContenderName): number[] =>
    bouts.filter((bout) => bout.contender === of).map((bout) => bout.rowsPerSecond)
  const plain = speeds('plain')
  return median(speeds(contender).map((speed, round) => speed / (plain[round] ?? Number.NaN)))
}

/** Rates, memory, statements and where the processor time went. */
export function speedTable(bouts: readonly Bout[], contenders: readonly ContenderName[]): string {
  const rows = contenders.map((contender) => {
    const of = (value: (bout: Bout) => number): number => medianOf(bouts, contender, value)
    return [
      titles[contender],
      count(of((bout) => bout.rowsPerSecond)),
      times(timesAsFast(bouts, contender)),
      megabytes(of((bout) => bout.peakBytes)),
      count(of((bout) => bout.statementsPer1000)),
      count(of((bout) => bout.calls)),
      seconds(of((bout) => bout.cpuMs)),
      seconds(of((bout) => bout.postgresCpuMs ?? Number.NaN)),
      seconds(of((bout) => bout.sandboxCpuMs)),
    ]
  })
  return table(
    [
      '',
      'rows/s',
      'of the plain script',
      'peak memory',
      'SQL statements per 1,000 rows',
      'calls',
      'CPU itself',
      'CPU Postgres',
      'CPU sandbox',
    ],
    rows,
  )
}

/** Peak memory and rate at two sizes of the table. */
export function memoryTable(
  small: readonly Bout[],
  large: readonly Bout[],
  contenders: readonly ContenderName[],
): string {
  const sizes = [small, large].map((bouts) => count(bouts[0]?.rows ?? 0))
  const rows = contenders.map((contender) => {
    const [memory, more] = [small, large].map((bouts) => medianOf(bouts, contender, (bout) => bout.peakBytes))
    const [rate, later] = [small, large].map((bouts) =>
      medianOf(bouts, contender, (bout) => bout.rowsPerSecond),
    )
    const statements = medianOf(large, contender, (bout) => bout.statementsPer1000)
    return [
      titles[contender],
      megabytes(memory ?? 0),
      megabytes(more ?? 0),
      times((more ?? 0) / (memory ?? 0)),
      count(rate ?? 0),
      count(later ?? 0),
      count(statements),
    ]
  })
  return table(
    [
      '',
      ...sizes.map((size) => `peak memory at ${size} rows`),
      'growth',
      ...sizes.map((size) => `rows/s at ${size}`),
      `SQL statements per 1,000 rows at ${sizes[1]}`,
    ],
    rows,
  )
}

/** A Markdown table; the first column is text, the others are numbers. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, n) => (n === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

const count = (number: number): string => Math.round(number).toLocaleString('en')
const times = (factor: number): string => (Number.isNaN(factor) ? '–' : `${factor.toFixed(2)}×`)
const megabytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`
const seconds = (ms: number): string => (Number.isNaN(ms) ? '?' : `${(ms / 1_000).toFixed(1)} s`)
