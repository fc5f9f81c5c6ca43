import { startSandbox } from '../../src/sandbox/server.ts'
import type { SandboxAsked, SandboxTold } from './sandbox.ts'

/** The sandbox in a process of its own, without a limit; `sandbox.ts` holds its other end. */
const tell = (message: SandboxTold): void => void process.send?.(message)
const sandbox = await startSandbox({ limit: null, jobDelayMs: [5, 50] })

process.on('message', (asked: SandboxAsked) => {
  if (asked.ask === 'begin') {
    sandbox.reset()
    sandbox.configure({ latencyAfterMs: asked.latencyMs })
    tell({ told: 'begun', ...cpu() })
  } else {
    const { requests, inputs, deliveries } = sandbox.stats()
    const calls = Object.values(requests)
      .flatMap((byStatus) => Object.values(byStatus))
      .reduce((sum, count) => sum + count, 0)
    tell({ told: 'counts', ...cpu(), calls, maxAsked: inputs.max_asked, deliveries: deliveries.attempts })
  }
})
process.on('disconnect', () => void sandbox.close())
tell({ told: 'ready', url: sandbox.url, keys: sandbox.keys, webhookSecret: sandbox.webhookSecret })

function cpu(): { readonly cpuMs: number } {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1_000 }
}
