import { cpus, loadavg, release, totalmem, type as system } from 'node:os'
import { openBenchEnvironment, type BenchEnvironment } from './environment.ts'
import { measureCandidate, type Measurement } from './measurement.ts'
import { CANDIDATES, type CandidateName } from './candidate.ts'
import { checkTargets, type LatencyResults } from './targets.ts'
import { USAGE, readOptions, type BenchOptions } from './options.ts'
import { startSandboxProcess, type SandboxProcess } from './sandbox.ts'
import { memoryTable, speedTable } from './table.ts'

async function bench(options: BenchOptions): Promise<void> {
  const environment = await openBenchEnvironment(options)
  try {
    const sandbox = await startSandboxProcess()
    try {
      await measure(environment, sandbox, options)
    } finally {
      await sandbox.stop()
    }
  } finally {
    await environment.stop()
  }
}

async function measure(
  environment: BenchEnvironment,
  sandbox: SandboxProcess,
  options: BenchOptions,
): Promise<void> {
  console.log(describeMachine(environment, options), '\n')
  // Warms up the sandbox, whose code is compiled by use. Otherwise the first candidate would wait for that.
  for (const candidate of options.candidates)
    await measureCandidate(environment, sandbox, {
      ...options,
      candidate,
      rows: 2_000,
      latencyMs: 0,
      profile: null,
    })

  const results: LatencyResults[] = []
  for (const latencyMs of options.latencies) {
    const measurements = await measureRounds(environment, sandbox, options, {
      rows: options.rows,
      latencyMs,
      times: options.rounds,
    })
    results.push({ latencyMs, measurements })
    console.log(
      `${number(options.rows)} rows, ${latencyMs === 0 ? 'no latency' : `${latencyMs} ms of latency`}:\n`,
    )
    console.log(speedTable(measurements, options.candidates), '\n')
  }
  const small = results[0]?.measurements ?? []
  let large: Measurement[] | null = null
  if (options.memoryRows !== null) {
    const latencyMs = options.latencies[0] ?? 0
    large = await measureRounds(environment, sandbox, options, {
      rows: options.memoryRows,
      latencyMs,
      times: 1,
    })
    console.log(`Ten times the rows:\n`)
    console.log(memoryTable(small, large, options.candidates), '\n')
  }
  // The targets compare with the plain script of the same benchmark.
  if (options.candidates.length < CANDIDATES.length) return
  for (const target of checkTargets(results, large))
    console.log(`- ${target.met ? 'met' : 'NOT MET'}: ${target.text} (${target.measured})`)
}

/** Runs the candidates in turn: A B C A B C, so that a slow minute of the machine affects all. */
async function measureRounds(
  environment: BenchEnvironment,
  sandbox: SandboxProcess,
  options: BenchOptions,
  task: { readonly rows: number; readonly latencyMs: number; readonly times: number },
): Promise<Measurement[]> {
  const measurements: Measurement[] = []
  for (let round = 1; round <= task.times; round++)
    for (const candidate of options.candidates) {
      const measurement = await measureCandidate(environment, sandbox, { ...options, ...task, candidate })
      measurements.push(measurement)
      logMeasurement(measurement, `${task.latencyMs} ms, round ${round} of ${task.times}`)
      if (measurement.slowestStatements) console.error(measurement.slowestStatements)
      const [first] = measurements
      if (first && measurement.checksum !== first.checksum)
        throw new Error(
          `${candidate} left a table that differs from that of ${first.candidate}: ${measurement.checksum}, not ${first.checksum}`,
        )
    }
  return measurements
}

function logMeasurement(measurement: Measurement, when: string): void {
  const { candidate, rowsPerSecond, peakBytes, statementsPer1000, wallMs, cpuMs, postgresCpuMs, rows } =
    measurement
  console.error(
    `${when}: ${pad(candidate)} ${number(rowsPerSecond)} rows/s in ${(wallMs / 1_000).toFixed(1)} s, ` +
      `${number(peakBytes / 1024 / 1024)} MiB, ${number(statementsPer1000)} statements per 1,000 rows, ` +
      `CPU a row: own ${number((cpuMs * 1_000) / rows)} µs, Postgres ${number(((postgresCpuMs ?? Number.NaN) * 1_000) / rows)} µs, ` +
      `load ${loadavg()[0]?.toFixed(1)}`,
  )
}

const pad = (candidate: CandidateName): string => candidate.padEnd(15)
const number = (value: number): string => Math.round(value).toLocaleString('en')

function describeMachine(environment: BenchEnvironment, options: BenchOptions): string {
  const all = cpus()
  return [
    `${all.length} cores (${all[0]?.model.trim() ?? 'unknown'})`,
    `${number(totalmem() / 1024 ** 3)} GiB`,
    `${system()} ${release()}`,
    `Node ${process.version}`,
    `Postgres ${environment.version} (${options.settings.join(', ') || 'default settings: fsync and synchronous_commit on'})`,
  ].join(', ')
}

/**
 * Compares Fillrate's two routes with a plain script, on the sandbox, whose rate limit is never reached. Prints Markdown for
 * docs/internals/performance.md on standard output, and progress on standard error.
 */
const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(USAGE)
else await bench(options)
