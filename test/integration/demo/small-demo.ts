import { showDemo } from '../../../src/demo/demo.ts'
import type { DemoSettings } from '../../../src/demo/settings.ts'
import { Output } from '../../../src/cli/terminal.ts'

/** Takes seconds instead of half a minute. */
export const SMALL: DemoSettings = { seed: 7, accounts: 80, contacts: 600, limit: 150, jobDeadline: '5s' }

export interface ShownDemo {
  readonly exit: number
  readonly stdout: string
}

/** A small demo in this process, on a terminal of 80 columns. `onFrame` sees each frame of the progress. */
export async function showSmallDemo(options: {
  readonly folder: string
  readonly json: boolean
  readonly keep?: boolean
  readonly signal?: AbortSignal
  /** Called with all that was printed so far. */
  readonly onText?: (stdout: string) => void
  readonly onFrame?: (frame: string) => void
}): Promise<ShownDemo> {
  let stdout = ''
  const context = {
    stdout: new Output(
      {
        write: (text: string) => {
          stdout += text
          options.onText?.(stdout)
        },
      },
      { color: false },
    ),
    stderr: new Output(
      { isTTY: true, columns: 80, write: (text: string) => options.onFrame?.(text) },
      { color: false },
    ),
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
  }
  const flags = {
    config: null,
    json: options.json,
    logLevel: null,
    logFormat: null,
    color: false,
    help: false,
    keep: options.keep ?? false,
    version: false,
  }
  return { exit: await showDemo({ flags }, context, SMALL), stdout }
}
