import type { MaintenanceDeps, SourceDeps } from '../runs/maintenance.ts'
import type { WorkerTask } from '../runs/loop.ts'
import { Workers } from '../runs/workers.ts'
import type { Receiver } from '../http/receiver.ts'
import type { Notifier } from './notifier.ts'
import { notificationTask, supervise } from './service.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { WakeSignal } from '../util/wake-signal.ts'

export interface ServeReceiverOptions {
  readonly signal: AbortSignal
  /** Those of the configuration, each with its sources as they are open now. */
  readonly services: () => Promise<readonly MaintenanceDeps[]>
  readonly receiver: (deliveries: WakeSignal) => Promise<Receiver>
  readonly onListening?: (listens: string | null) => void
  readonly notifier: Notifier
  /** Opens the sources again, after a broken one was mended. */
  readonly reopen: () => Promise<void>
}

/**
 * Keeps the receiver open until aborted, and settles and writes back deliveries: a nightly `fillrate run --wait 0`
 * need not wait for them.
 */
export async function serveReceiver(deps: SourceDeps, options: ServeReceiverOptions): Promise<void> {
  const deliveries = new DeliveryBackpressure()
  const { notifier } = options
  const receiver = await options.receiver(deliveries)
  options.onListening?.(receiver.url)
  const { signal } = options
  // No run waits for what this process does.
  const runs = { fail: () => {} }
  const superviseAll = (tasks: readonly WorkerTask[], until: AbortSignal): Promise<void[]> =>
    Promise.all(tasks.map((step) => supervise(deps, runs, step, until)))
  const work = async (): Promise<void> => {
    while (!signal.aborted) {
      const mended = new AbortController()
      const until = AbortSignal.any([signal, mended.signal])
      const services = await options.services()
      const workers = services.map(
        (service) =>
          new Workers(service, {
            sources: [...service.sources.values()],
            calls: null,
            signal: until,
            deliveries,
            onMended: () => mended.abort(),
            beforeSettle: () => deliveries.yield(until),
          }),
      )
      const tasks = workers.flatMap((one) => one.tasks())
      await superviseAll(tasks, until)
      const isStopped = (): boolean => signal.aborted
      await retryWhileUnavailable(options.reopen, { giveUp: isStopped }).catch((error: unknown) => {
        if (!isStopped()) throw error
      })
    }
  }
  const others = notifier.hasTargets ? [notificationTask({ ...deps, notifier }, signal)] : []
  try {
    await Promise.all([work(), superviseAll(others, signal)])
  } finally {
    await receiver.close()
  }
}

/** Number of deliveries within this time that make a burst. */
const BURST_DELIVERIES = 40
const BURST_WINDOW_MS = 500
/** Pause between two settle batches during a burst. */
const YIELD_MS = 400

/**
 * Slows settling during a burst, so that incoming deliveries are acknowledged first: their senders wait for an
 * answer. Settling catches up afterwards.
 */
export class DeliveryBackpressure extends WakeSignal {
  readonly #receivedAt: number[] = []
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    super()
    this.#now = now
  }

  override notify(): void {
    this.record()
    super.notify()
  }

  record(): void {
    this.#receivedAt.push(this.#now())
    if (this.#receivedAt.length > BURST_DELIVERIES) this.#receivedAt.shift()
  }

  get isBusy(): boolean {
    const [oldest] = this.#receivedAt
    return (
      this.#receivedAt.length === BURST_DELIVERIES &&
      oldest !== undefined &&
      this.#now() - oldest < BURST_WINDOW_MS
    )
  }

  /** Waits briefly during a burst. */
  async yield(signal: AbortSignal): Promise<void> {
    if (this.isBusy) await sleep(YIELD_MS, undefined, { signal }).catch(() => {})
  }
}
