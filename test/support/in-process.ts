import { cli } from '../../src/cli/cli.ts'
import { Output } from '../../src/cli/output.ts'
import type { Ended } from './cli.ts'

/** The program in this process: a command touches nothing of its own process, and starting one takes half a second. */
export async function runInProcess(
  { cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ...words: string[]
): Promise<Ended> {
  const written = { stdout: '', stderr: '' }
  const outputTo = (name: keyof typeof written): Output =>
    new Output({ write: (text) => (written[name] += text) }, { color: false })
  const context = {
    stdout: outputTo('stdout'),
    stderr: outputTo('stderr'),
    env,
    cwd,
    signal: new AbortController().signal,
    now: Date.now,
  }
  const code = await cli({ words, contextFor: () => context })
  return { code, ...written }
}
