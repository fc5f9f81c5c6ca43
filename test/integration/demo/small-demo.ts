import { runCli } from '../../../src/cli/cli.ts'
import type { Context } from '../../../src/cli/command.ts'
import { Output } from '../../../src/cli/terminal.ts'
import { showDemo } from '../../../src/demo/demo.ts'
import type { DemoSettings } from '../../../src/demo/settings.ts'

/** Takes seconds instead of half a minute. */
const SMALL: DemoSettings = { seed: 7, accounts: 80, contacts: 600 }

export interface ShownDemo {
  readonly exit: number
  readonly stdout: string
}

/** A small demo in this process. `onFrame` sees each frame of the progress, on a terminal of 80 columns. */
export async function showSmallDemo(options: {
  readonly folder: string
  readonly keep?: boolean
  readonly signal?: AbortSignal
  /** Called with all that was printed so far. */
  readonly onText?: (stdout: string) => void
  readonly onFrame?: (frame: string) => void
}): Promise<ShownDemo> {
  let stdout = ''
  const write = (text: string): void => {
    stdout += text
    options.onText?.(stdout)
  }
  const progress = { isTTY: true, columns: 80, write: (text: string) => options.onFrame?.(text) }
  const context = {
    stdout: new Output({ write }, { color: false }),
    stderr: new Output(progress, { color: false }),
    // Settings for another database and service must not reach the demo.
    env: {
      ...process.env,
      DATABASE_URL: 'postgres://none@127.0.0.1:1/none',
      FILLRATE_API_KEY: 'another',
      PGSSLMODE: 'require',
    },
    cwd: options.folder,
    signal: options.signal ?? new AbortController().signal,
    now: Date.now,
    runCommand: (words: readonly string[], given: Context) => runCli({ words, contextFor: () => given }),
  }
  const exit = await showDemo(context, { keep: options.keep ?? false }, SMALL)
  return { exit, stdout }
}
