import { fork } from 'node:child_process'
import { once } from 'node:events'
import { onServer } from '../../test/support/server.ts'
import type { Arena } from './arena.ts'
import type { ContenderName, Measured, Task } from './contender.ts'
import { contents } from './crm.ts'
import type { SandboxProcess } from './sandbox.ts'

/** One contender's one run. */
export interface Bout extends Measured {
  readonly contender: ContenderName
  readonly rows: number
  readonly rowsPerSecond: number
  readonly statementsPer1000: number
  /** Processor time of Postgres and of the sandbox during the run, in milliseconds. */
  readonly postgresCpuMs: number | null
  readonly sandboxCpuMs: number
  readonly calls: number
  /** What the table holds afterwards; the same for all. */
  readonly contents: string
  /** The statements that cost Postgres most; empty where that is not counted. */
  readonly costliest: string
}

export interface BoutOptions {
  readonly contender: ContenderName
  readonly rows: number
  readonly latencyMs: number
  readonly concurrency: number
  readonly profile: string | null
}

/**
 * Runs one contender on a new database.
 * @throws Error when it failed, or asked an input twice
 */
export async function fight(arena: Arena, sandbox: SandboxProcess, options: BoutOptions): Promise<Bout> {
  const { contender, rows } = options
  const database = await arena.open(rows)
  try {
    const before = { postgres: await arena.cpuMs(), sandbox: (await sandbox.begin(options.latencyMs)).cpuMs }
    const measured = await runContender(
      { contender, databaseUrl: database.url, service: sandbox.service, concurrency: options.concurrency },
      options.profile,
    )
    const postgres = await arena.cpuMs()
    const { cpuMs, calls, maxAsked } = await sandbox.counts()
    if (maxAsked > 1) throw new Error(`${contender} asked one input ${maxAsked} times`)
    return {
      ...measured,
      contender,
      rows,
      rowsPerSecond: (rows * 1_000) / measured.durationMs,
      statementsPer1000: (measured.statements * 1_000) / rows,
      postgresCpuMs: postgres === null || before.postgres === null ? null : postgres - before.postgres,
      sandboxCpuMs: cpuMs - before.sandbox,
      calls,
      costliest: await database.costliest(),
      contents: await onServer(database.url, contents),
    }
  } finally {
    await database.drop()
  }
}

async function runContender(task: Task, profile: string | null): Promise<Measured> {
  const child = fork(new URL('contender-process.ts', import.meta.url), [JSON.stringify(task)], {
    execArgv: profile === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
  })
  let measured: Measured | null = null
  child.on('message', (message: Measured) => {
    measured = message
    child.disconnect()
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0 || measured === null) throw new Error(`the contender ${task.contender} ended with ${code}`)
  return measured
}
