import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ended } from './cli.ts'
import { programPath } from './cli.ts'
import { runProgram } from './program.ts'

/** An empty folder in which `fillrate init` writes. */
export interface InitFolder {
  readonly path: string
  /** Runs `fillrate init` in this process. */
  init(...words: string[]): Promise<Ended>
  /** Runs a command in a process of its own, which can load a configuration in TypeScript. */
  run(...words: string[]): Promise<Ended>
  read(name: string): Promise<string>
  remove(): Promise<void>
}

export async function createFolder(databaseUrl: string): Promise<InitFolder> {
  const path = await mkdtemp(join(tmpdir(), 'fillrate-init-'))
  const env = {
    DATABASE_URL: databaseUrl,
    // Nothing listens there.
    FILLRATE_BASE_URL: 'http://127.0.0.1:1',
    FILLRATE_API_KEY: 'none',
  }
  return {
    path,
    init: (...words) => runProgram({ cwd: path, env }, 'init', ...words),
    run: (...words) =>
      new Promise((resolve) => {
        const child = spawn(process.execPath, [programPath(), ...words], { cwd: path, env })
        const written = { stdout: '', stderr: '' }
        child.stdout.on('data', (chunk: Buffer) => (written.stdout += chunk.toString()))
        child.stderr.on('data', (chunk: Buffer) => (written.stderr += chunk.toString()))
        child.on('close', (code) => {
          resolve({ code, ...written })
        })
      }),
    read: (name) => readFile(join(path, name), 'utf8'),
    remove: () => rm(path, { recursive: true, force: true }),
  }
}
