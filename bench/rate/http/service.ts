import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { LimiterName } from './limiters.ts'

export interface ServiceTask {
  readonly limiter: LimiterName
  readonly limit: number
  readonly windowMs: number
  /** Milliseconds before the limiter, and after it: from, to. */
  readonly before: readonly [number, number]
  readonly after: readonly [number, number]
}

export interface ServiceCounts {
  /** Milliseconds since the epoch, on the service's clock. */
  readonly acceptedAt: readonly number[]
  readonly windowStarts: readonly number[]
  readonly rejected: number
  readonly now: number
}

export type ServiceMessage =
  | { readonly type: 'ready'; readonly port: number }
  | ({ readonly type: 'counts' } & ServiceCounts)

export interface ServiceProcess {
  readonly url: string
  counts(): Promise<ServiceCounts>
  stop(): Promise<void>
}

export async function startService(task: ServiceTask): Promise<ServiceProcess> {
  const child = fork(new URL('service-process.ts', import.meta.url), [JSON.stringify(task)])
  const ended = once(child, 'exit')
  const receive = async (): Promise<ServiceMessage> => {
    const died = ended.then(() => Promise.reject(new Error('the service process ended by itself')))
    const [message] = (await Promise.race([once(child, 'message'), died])) as [ServiceMessage]
    return message
  }
  const ready = await receive()
  if (ready.type !== 'ready') throw new Error('the service did not report its address')
  return {
    url: `http://127.0.0.1:${ready.port}`,
    counts: async () => {
      child.send('counts')
      const message = await receive()
      if (message.type !== 'counts') throw new Error('the service did not report its counts')
      return message
    },
    stop: async () => {
      child.disconnect()
      await ended
    },
  }
}
