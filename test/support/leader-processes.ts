import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { LeaderTask } from './leader-process.ts'

export interface LeaderProcess {
  readonly pid: number
  /** Kills it with SIGKILL. */
  kill(): Promise<void>
  /** Lets it release its lease and exit. */
  end(): Promise<void>
}

/** Starts a process that calls the service while it is the leader. Resolves when it is about to acquire the lease. */
export async function startLeaderProcess(task: LeaderTask): Promise<LeaderProcess> {
  const child: ChildProcess = fork(new URL('leader-process.ts', import.meta.url), [JSON.stringify(task)])
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
