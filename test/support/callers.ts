import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { CallerTask } from './caller-process.ts'

export interface CallerProcess {
  readonly pid: number
  /** Ends it at whatever instruction it is. */
  kill(): Promise<void>
  /** Lets it end its turn. */
  end(): Promise<void>
}

/** Starts a process that calls the service whenever it is its turn. Resolves when it is about to ask for it. */
export async function startCaller(task: CallerTask): Promise<CallerProcess> {
  const child: ChildProcess = fork(new URL('caller-process.ts', import.meta.url), [JSON.stringify(task)])
  const ended = once(child, 'exit')
  await once(child, 'message')
  return {
    pid: child.pid ?? 0,
    kill: async () => {
      child.kill('SIGKILL')
      await ended
    },
    end: async () => {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}
