import { execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { onServer } from '../../test/support/server.ts'
import type { BenchEnvironment } from './environment.ts'
import type { CandidateName, Measured, Task } from './candidate.ts'
import { checksum } from './crm.ts'
import type { SandboxProcess } from './sandbox.ts'

/** The result of one run of one candidate. */
export interface Measurement extends RunOfCandidate {
  readonly candidate: CandidateName
  readonly rows: number
  /** With the start and the end of the process. */
  readonly rowsPerSecond: number
  readonly statementsPer1000: number
  /** CPU time of Postgres and of the sandbox during the run, in milliseconds. */
  readonly postgresCpuMs: number | null
  readonly sandboxCpuMs: number
  readonly calls: number
  /** A checksum of the table afterwards; the same for all. */
  readonly checksum: string
  /** The statements that cost Postgres most; empty if not recorded. */
  readonly slowestStatements: string
}

export interface MeasurementOptions {
  readonly candidate: CandidateName
  readonly rows: number
  readonly latencyMs: number
  readonly concurrency: number
  readonly profile: string | null
}

/**
 * Runs one candidate on a new database.
 * @throws Error if it failed, or requested an input twice
 */
export async function measureCandidate(
  environment: BenchEnvironment,
  sandbox: SandboxProcess,
  options: MeasurementOptions,
): Promise<Measurement> {
  const { candidate, rows } = options
  const database = await environment.open(rows)
  try {
    const before = {
      postgres: await environment.cpuMs(),
      sandbox: (await sandbox.begin(options.latencyMs)).cpuMs,
    }
    const measured = await runCandidate(
      { candidate, databaseUrl: database.url, service: sandbox.service, concurrency: options.concurrency },
      options.profile,
    )
    const postgres = await environment.cpuMs()
    const { cpuMs, calls, maxRequests } = await sandbox.counts()
    if (maxRequests > 1) throw new Error(`${candidate} requested one input ${maxRequests} times`)
    return {
      ...measured,
      candidate,
      rows,
      rowsPerSecond: (rows * 1_000) / measured.wallMs,
      statementsPer1000: (measured.statements * 1_000) / rows,
      postgresCpuMs: postgres === null || before.postgres === null ? null : postgres - before.postgres,
      sandboxCpuMs: cpuMs - before.sandbox,
      calls,
      slowestStatements: await database.slowestStatements(),
      checksum: await onServer(database.url, checksum),
    }
  } finally {
    await database.drop()
  }
}

/** Measured from outside the process too. */
export interface RunOfCandidate extends Measured {
  /** From the start of the process to its end, in milliseconds. */
  readonly wallMs: number
}

export async function runCandidate(task: Task, profile: string | null): Promise<RunOfCandidate> {
  const program = await (bundled ??= bundleCandidates())
  const startedAt = performance.now()
  const child = fork(program, [JSON.stringify(task)], {
    execArgv: profile === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
  })
  let measured: Measured | null = null
  child.on('message', (message: Measured) => {
    measured = message
    child.disconnect()
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  const wallMs = performance.now() - startedAt
  if (code !== 0 || measured === null) throw new Error(`the candidate ${task.candidate} exited with ${code}`)
  return { ...(measured as Measured), wallMs }
}

let bundled: Promise<string> | null = null

/** @returns the file to run, removed when this process ends */
async function bundleCandidates(): Promise<string> {
  const cache = resolve(import.meta.dirname, '../../.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'bench-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'bundle.ts'), folder])
  return join(folder, 'bench/throughput/candidate-process.js')
}
