import { runCli } from '../../src/cli/cli.ts'
import { Output } from '../../src/cli/terminal.ts'
import type { Ended } from './cli.ts'

/** Runs the program in this process: commands do not touch process state, and a new process takes a second to start. */
export async function runProgram(
  { cwd, env, now = Date.now }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; now?: () => number },
  ...args: string[]
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
    now,
  }
  const code = await runCli({ words: args, contextFor: () => context })
  return { code, ...written }
}
