import type { Deps } from '../pipeline/deps.ts'
import { Works } from '../pipeline/run/works.ts'
import { Burst } from './burst.ts'
import type { OpenReceiver } from './receiver.ts'
import { supervise } from './supervise.ts'

export interface ServeOptions {
  readonly signal: AbortSignal
  readonly receiver: (onDelivered: () => void) => Promise<OpenReceiver>
  readonly onListening?: (listens: string | null) => void
}

/**
 * Keeps the receiver open until told to stop, and settles and writes back what it receives: a nightly
 * `fillrate run --wait 0` need not stay for its deliveries.
 */
export async function serve(deps: Deps, options: ServeOptions): Promise<void> {
  const burst = new Burst()
  const works = new Works(deps, {
    sources: [...deps.sources.values()],
    calls: null,
    signal: options.signal,
    beforeSettling: () => burst.standBack(options.signal),
  })
  const receiver = await options.receiver(() => {
    burst.came()
    works.wakeSettling()
  })
  options.onListening?.(receiver.listens)
  try {
    await Promise.all(works.steps().map((step) => supervise(deps, works, step, options.signal)))
  } finally {
    await receiver.close()
  }
}
