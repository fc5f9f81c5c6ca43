import { TITLES, type CandidateName } from './candidate.ts'
import type { Measurement } from './measurement.ts'

/** The middle value; for an even count, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2
}

export const medianOf = (
  measurements: readonly Measurement[],
  candidate: CandidateName,
  of: (measurement: Measurement) => number,
): number => median(measurements.filter((measurement) => measurement.candidate === candidate).map(of))

/**
 * The speed as a multiple of the plain script's: the median of the ratios within each round, so that a slow moment of
 * the machine has little effect.
 */
export const timesAsFast = (measurements: readonly Measurement[], candidate: CandidateName): number =>
  median(ratiosToPlain(measurements, candidate, (measurement) => measurement.wallMs))

/** How much of the plain script's time each run of a candidate took, in the same round. */
function ratiosToPlain(
  measurements: readonly Measurement[],
  candidate: CandidateName,
  timeOf: (measurement: Measurement) => number,
): number[] {
  const results = (of: CandidateName): number[] =>
    measurements.filter((measurement) => measurement.candidate === of).map(timeOf)
  const plain = results('plain')
  return results(candidate).map((ms, round) => (plain[round] ?? Number.NaN) / ms)
}

/** Rates, memory, statements and CPU time. */
export function speedTable(
  measurements: readonly Measurement[],
  candidates: readonly CandidateName[],
): string {
  const rows = candidates.map((candidate) => {
    const of = (value: (measurement: Measurement) => number): number =>
      medianOf(measurements, candidate, value)
    return [
      TITLES[candidate],
      count(of((measurement) => measurement.rowsPerSecond)),
      range(ratiosToPlain(measurements, candidate, (measurement) => measurement.wallMs)),
      times(median(ratiosToPlain(measurements, candidate, (measurement) => measurement.durationMs))),
      megabytes(of((measurement) => measurement.peakBytes)),
      count(of((measurement) => measurement.statementsPer1000)),
      count(of((measurement) => measurement.calls)),
      seconds(of((measurement) => measurement.cpuMs)),
      seconds(of((measurement) => measurement.postgresCpuMs ?? Number.NaN)),
      seconds(of((measurement) => measurement.sandboxCpuMs)),
    ]
  })
  return table(
    [
      '',
      'rows/s',
      'of the plain script',
      'without start-up',
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

/** Peak memory and rate at two table sizes. */
export function memoryTable(
  small: readonly Measurement[],
  large: readonly Measurement[],
  candidates: readonly CandidateName[],
): string {
  const sizes = [small, large].map((measurements) => count(measurements[0]?.rows ?? 0))
  const rows = candidates.map((candidate) => {
    const [memory, more] = [small, large].map((measurements) =>
      medianOf(measurements, candidate, (measurement) => measurement.peakBytes),
    )
    const [rate, later] = [small, large].map((measurements) =>
      medianOf(measurements, candidate, (measurement) => measurement.rowsPerSecond),
    )
    const statements = medianOf(large, candidate, (measurement) => measurement.statementsPer1000)
    return [
      TITLES[candidate],
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
/** The median with the lowest and the highest; one alone without them. */
const range = (factors: readonly number[]): string =>
  factors.length < 2
    ? times(median(factors))
    : `${times(median(factors))} (${Math.min(...factors).toFixed(2)}–${Math.max(...factors).toFixed(2)})`
const megabytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`
const seconds = (ms: number): string => (Number.isNaN(ms) ? '?' : `${(ms / 1_000).toFixed(1)} s`)
