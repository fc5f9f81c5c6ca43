import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { runCli } from '../../../src/cli/cli.ts'
import { Output } from '../../../src/cli/terminal.ts'

interface Prompted {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs `fillrate init` in its own folder, in this process. */
export interface Prompt {
  readonly folder: string
  /** @param answers what is typed; without them there is no terminal */
  run(words: readonly string[], answers?: string): Promise<Prompted>
  read(name: string): Promise<string>
  remove(): Promise<void>
}

export async function createPrompt(databaseUrl: string): Promise<Prompt> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-init-'))
  return {
    folder,
    run: async (words, answers) => {
      const written = { stdout: '', stderr: '' }
      const isTTY = answers !== undefined
      const outputTo = (name: keyof typeof written): Output =>
        new Output({ write: (text) => (written[name] += text), isTTY, columns: 80 }, { color: false })
      const stdin = Object.assign(new PassThrough(), { isTTY })
      stdin.end(answers ?? '')
      const context = {
        stdin,
        stdout: outputTo('stdout'),
        stderr: outputTo('stderr'),
        env: { DATABASE_URL: databaseUrl },
        cwd: folder,
        signal: new AbortController().signal,
        now: Date.now,
      }
      const code = await runCli({ words: ['init', ...words], contextFor: () => context })
      return { code, ...written }
    },
    read: (name) => readFile(join(folder, name), 'utf8'),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
