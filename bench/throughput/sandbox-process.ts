import { startSandbox } from '../../src/sandbox/server.ts'
import type { SandboxCommand, SandboxReply } from './sandbox.ts'

/** The sandbox in its own process, with a rate limit that is stated and never reached; `sandbox.ts` sends the commands. */
const reply = (message: SandboxReply): void => void process.send?.(message)
const sandbox = await startSandbox({ limit: 10_000_000, windowMs: 60_000, jobDelayMs: [5, 50] })

process.on('message', (command: SandboxCommand) => {
  if (command.type === 'begin') {
    sandbox.reset()
    sandbox.configure({ latencyAfterMs: command.latencyMs })
    reply({ type: 'begun', ...cpu() })
  } else {
    const { requests, inputs, deliveries } = sandbox.stats()
    const calls = Object.values(requests).reduce((total, byStatus) => total + sum(byStatus), 0)
    reply({
      type: 'counts',
      ...cpu(),
      calls,
      maxRequests: inputs.max_requested,
      deliveries: sum(deliveries.answers),
    })
  }
})
process.on('disconnect', () => void sandbox.close())
reply({ type: 'ready', url: sandbox.url, keys: sandbox.keys, webhookSecret: sandbox.webhookSecret })

const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0)

function cpu(): { readonly cpuMs: number } {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1_000 }
}
