import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Sandbox } from '../../src/sandbox/server.ts'
import { crmConfig } from './table.ts'

const MAIN = resolve(import.meta.dirname, '../../src/main.ts')

/** Fillrate's processes on one database, each started from the command line, as in production. */
export class Processes {
  readonly #folder: string
  readonly #environment: Record<string, string | undefined>
  readonly #all = new Set<ChildProcess>()

  static async prepare(databaseUrl: string, sandbox: Sandbox): Promise<Processes> {
    const folder = await mkdtemp(join(tmpdir(), 'fillrate-bench-'))
    await writeFile(join(folder, 'fillrate.config.json'), JSON.stringify(crmConfig))
    return new Processes(folder, {
      PATH: process.env['PATH'],
      DATABASE_URL: databaseUrl,
      FILLRATE_BASE_URL: sandbox.url,
      FILLRATE_API_KEY: sandbox.keys[0] ?? '',
      LOG_LEVEL: process.env['BENCH_LOG'] ?? 'warn',
    })
  }

  private constructor(folder: string, environment: Record<string, string | undefined>) {
    this.#folder = folder
    this.#environment = environment
  }

  start(...args: string[]): ChildProcess {
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: this.#folder,
      env: this.#environment,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    this.#all.add(child)
    child.once('exit', () => this.#all.delete(child))
    return child
  }

  /** @returns the exit code, or the signal */
  async end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null> {
    if (child.exitCode !== null) return child.exitCode
    const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    child.kill(signal)
    const [code, by] = await ended
    return code ?? by
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#all].map((child) => this.end(child, 'SIGKILL')))
    await rm(this.#folder, { recursive: true, force: true })
  }
}
