import type { Readable } from 'node:stream'
import type { Output } from './output.ts'

/** Everything of the process that a command may use: nothing but `main.ts` touches `process`. */
export interface Context {
  /** Where answers come from. Without it there is nobody to ask. */
  readonly stdin?: Readable & { readonly isTTY?: boolean }
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Aborted when the user or the system wants the command to end. */
  readonly signal: AbortSignal
  /** Calls back whenever the system says that settings have changed (SIGHUP). Without a listener that ends the process. */
  readonly onReload?: (listener: () => void) => void
  readonly now: () => number
}
