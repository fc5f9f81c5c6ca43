import { runCli } from '../../src/cli/cli.ts'
import { Output } from '../../src/cli/terminal.ts'
import type { Ended } from './cli.ts'

/** Runs the program in this process: commands do not touch process state, and a new process takes a second to start. */
export async function runProgram(
  {
    cwd,
    env,
    now = Date.now,
    signal = new AbortController().signal,
    onOutput,
  }: {
    readonly cwd: string
    readonly env: NodeJS.ProcessEnv
    readonly now?: () => number
    readonly signal?: AbortSignal
    /** Called with all of standard output so far. */
    readonly onOutput?: (text: string) => void
  },
  ...args: string[]
): Promise<Ended> {
  const written = { stdout: '', stderr: '' }
  const outputTo = (name: keyof typeof written): Output =>
    new Output(
      {
        write: (text) => {
          written[name] += text
          if (name === 'stdout') onOutput?.(written.stdout)
        },
      },
      { color: false },
    )
  const context = {
    stdout: outputTo('stdout'),
    stderr: outputTo('stderr'),
    env,
    cwd,
    signal,
    now,
  }
  const code = await runCli({ words: args, contextFor: () => context })
  return { code, ...written }
}
