import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ended } from './cli.ts'
import { runProgram } from './program.ts'

export const DRAFT = 'fillrate.config.ts'

/** An empty folder in which `fillrate init` writes. */
export interface InitFolder {
  readonly path: string
  /** Drafts without an earlier draft. */
  init(...words: string[]): Promise<Ended>
  /** Runs a command in this process. */
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
    init: async (...words) => {
      await rm(join(path, DRAFT), { force: true })
      return runProgram({ cwd: path, env }, 'init', ...words)
    },
    run: (...words) => runProgram({ cwd: path, env }, ...words),
    read: (name) => readFile(join(path, name), 'utf8'),
    remove: () => rm(path, { recursive: true, force: true }),
  }
}

/** What `fillrate init` prints in a folder of its own. */
export async function printDraft(databaseUrl: string, ...words: string[]): Promise<Ended> {
  const folder = await createFolder(databaseUrl)
  return folder.init(...words).finally(() => folder.remove())
}
