import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Task } from './candidate.ts'

export type SandboxCommand =
  | { readonly type: 'begin'; readonly latencyMs: number }
  | { readonly type: 'counts' }

export type SandboxReply =
  | ({ readonly type: 'ready' } & Task['service'])
  | { readonly type: 'begun'; readonly cpuMs: number }
  | ({ readonly type: 'counts' } & SandboxCounts)

interface SandboxCounts {
  /** CPU time of the sandbox since it started, in milliseconds. */
  readonly cpuMs: number
  readonly calls: number
  /** The most requests for one input. */
  readonly maxRequests: number
  readonly deliveries: number
}

/** The sandbox, in its own process, so that it takes no time from the candidate's event loop. */
export interface SandboxProcess {
  readonly service: Task['service']
  /** Clears the counts. @returns its CPU time so far */
  begin(latencyMs: number): Promise<{ readonly cpuMs: number }>
  counts(): Promise<SandboxCounts>
  stop(): Promise<void>
}

export async function startSandboxProcess(): Promise<SandboxProcess> {
  const child = fork(new URL('sandbox-process.ts', import.meta.url))
  const closed = once(child, 'exit')
  const receive = async <Kind extends SandboxReply['type']>(
    kind: Kind,
  ): Promise<Extract<SandboxReply, { type: Kind }>> => {
    const died = closed.then(() => Promise.reject(new Error('the sandbox process exited')))
    const [reply] = (await Promise.race([once(child, 'message'), died])) as [SandboxReply]
    if (reply.type !== kind) throw new Error(`the sandbox sent "${reply.type}", expected "${kind}"`)
    return reply as Extract<SandboxReply, { type: Kind }>
  }
  const send = (command: SandboxCommand): void => void child.send(command)

  const service = await receive('ready')
  return {
    service,
    begin: (latencyMs) => {
      send({ type: 'begin', latencyMs })
      return receive('begun')
    },
    counts: () => {
      send({ type: 'counts' })
      return receive('counts')
    },
    stop: async () => {
      child.disconnect()
      await closed
    },
  }
}
