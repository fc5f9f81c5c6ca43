import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Task } from './contender.ts'

export type SandboxAsked = { readonly ask: 'begin'; readonly latencyMs: number } | { readonly ask: 'counts' }

export type SandboxTold =
  | ({ readonly told: 'ready' } & Task['service'])
  | { readonly told: 'begun'; readonly cpuMs: number }
  | ({ readonly told: 'counts' } & SandboxCounts)

export interface SandboxCounts {
  /** Processor time of the sandbox since it started, in milliseconds. */
  readonly cpuMs: number
  readonly calls: number
  /** How often the input asked most often was asked. */
  readonly maxAsked: number
  readonly deliveries: number
}

/** The sandbox, in a process of its own so that it takes no time from the contender's event loop. */
export interface SandboxProcess {
  readonly service: Task['service']
  /** Clears the counts. @returns its processor time so far */
  begin(latencyMs: number): Promise<{ readonly cpuMs: number }>
  counts(): Promise<SandboxCounts>
  stop(): Promise<void>
}

export async function startSandboxProcess(): Promise<SandboxProcess> {
  const child = fork(new URL('sandbox-process.ts', import.meta.url))
  const closed = once(child, 'exit')
  const hear = async <Kind extends SandboxTold['told']>(
    kind: Kind,
  ): Promise<Extract<SandboxTold, { told: Kind }>> => {
    const died = closed.then(() => Promise.reject(new Error('the sandbox process ended by itself')))
    const [told] = (await Promise.race([once(child, 'message'), died])) as [SandboxTold]
    if (told.told !== kind) throw new Error(`the sandbox told "${told.told}", "${kind}" was expected`)
    return told as Extract<SandboxTold, { told: Kind }>
  }
  const ask = (asked: SandboxAsked): void => void child.send(asked)

  const service = await hear('ready')
  return {
    service,
    begin: (latencyMs) => {
      ask({ ask: 'begin', latencyMs })
      return hear('begun')
    },
    counts: () => {
      ask({ ask: 'counts' })
      return hear('counts')
    },
    stop: async () => {
      child.disconnect()
      await closed
    },
  }
}
