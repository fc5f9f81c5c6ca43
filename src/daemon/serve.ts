import type { MaintenanceDeps, SourceDeps } from '../runs/maintenance.ts'
import { Workers } from '../runs/workers.ts'
import type { Receiver } from '../http/receiver.ts'
import { supervise } from './service.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { WakeSignal } from '../util/wake-signal.ts'

export interface ServeReceiverOptions {
  readonly signal: AbortSignal
  /** Those of the configuration, each with its sources as they are open now. */
  readonly services: () => Promise<readonly MaintenanceDeps[]>
  readonly receiver: (deliveries: WakeSignal) => Promise<Receiver>
  readonly onListening?: (listens: string | null) => void
  /** Opens the sources again, after a broken one was mended. */
  readonly reopen: () => Promise<void>
}

/**
 * Keeps the receiver open until aborted, and settles and writes back deliveries: a nightly `fillrate run --wait 0`
 * need not wait for them.
 */
export async function serveReceiver(deps: SourceDeps, options: ServeReceiverOptions): Promise<void> {
  const deliveries = new WakeSignal()
  const receiver = await options.receiver(deliveries)
  options.onListening?.(receiver.url)
  const { signal } = options
  // No run waits for what this process does.
  const runs = { fail: () => {} }
  const whenAvailable = <Result>(act: () => Promise<Result>): Promise<Result> =>
    retryWhileUnavailable(act, { giveUp: () => signal.aborted })
  const work = async (): Promise<void> => {
    while (!signal.aborted) {
      const mended = new AbortController()
      const until = AbortSignal.any([signal, mended.signal])
      const services = await whenAvailable(options.services)
      const workers = services.map(
        (service) =>
          new Workers(service, {
            sources: [...service.sources.values()],
            calls: null,
            signal: until,
            deliveries,
            onMended: () => mended.abort(),
          }),
      )
      const tasks = workers.flatMap((one) => one.tasks())
      await Promise.all(tasks.map((task) => supervise(deps, runs, task, until)))
      await whenAvailable(options.reopen)
    }
  }
  try {
    await work()
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await receiver.close()
  }
}
