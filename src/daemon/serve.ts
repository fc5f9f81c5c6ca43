import { setTimeout as sleep } from 'node:timers/promises'
import { LEASE_MS, type Deps } from '../pipeline/deps.ts'
import * as recover from '../pipeline/recover.ts'
import { loop } from '../pipeline/run/loop.ts'
import { Nudge } from '../pipeline/run/nudge.ts'
import * as settle from '../pipeline/settle/settle.ts'
import * as writeBack from '../pipeline/write-back/write-back.ts'
import { Burst } from './burst.ts'
import type { OpenReceiver } from './receiver.ts'

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
  const { signal } = options
  const toSettle = new Nudge()
  const toWrite = [...deps.sources.values()].map((source) => ({ source, nudge: new Nudge() }))
  const burst = new Burst()
  const receiver = await options.receiver(() => {
    burst.came()
    toSettle.nudge()
  })
  options.onListening?.(receiver.listens)
  const common = { signal, log: deps.log }
  try {
    await Promise.all([
      loop({
        ...common,
        name: 'settle',
        nudge: toSettle,
        paceMs: 50,
        full: 20,
        tick: async () => {
          await burst.standBack(signal)
          const did = await settle.tick(deps)
          if (did.answered > 0) for (const { nudge } of toWrite) nudge.nudge()
          return did.deliveries
        },
      }),
      ...toWrite.map(({ source, nudge }) =>
        loop({
          ...common,
          name: `write back ${source.name}`,
          nudge,
          paceMs: 200,
          full: 500,
          tick: async () => (await writeBack.tick(deps, source)).rows,
        }),
      ),
      loop({
        ...common,
        name: 'recover',
        nudge: new Nudge(),
        tick: async () => {
          await recover.tick(deps, null)
          await sleep(LEASE_MS / 5, undefined, { signal }).catch(() => {})
          return 1
        },
      }),
    ])
  } finally {
    await receiver.close()
  }
}
