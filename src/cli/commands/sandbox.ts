import { once } from 'node:events'
import { describeSandbox } from '../../sandbox/describe.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import { startSandbox } from '../../sandbox/server.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { UsageError } from '../usage-error.ts'
import { usageOf } from '../command.ts'

/** Runs until it is told to stop. */
export async function sandbox(command: Command<'sandbox'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, signal } = context
  const service = await startSandbox(optionsOf(command)).catch((error: unknown) => {
    throw portTaken(error, command) ?? error
  })
  try {
    const { lines, ...description } = describeSandbox(service)
    if (command.flags.json) writeJson(stdout, description)
    else {
      for (const line of lines) stdout.line(line)
      stdout.line()
      stdout.line(stdout.paint('heading', 'To use it'))
      stdout.line(`  export FILLRATE_BASE_URL=${service.url}`)
      stdout.line(`  export FILLRATE_API_KEY=${service.keys[0]}`)
      stdout.line(`  export FILLRATE_WEBHOOK_SECRET=${service.webhookSecret}`)
    }
    if (stderr.isTTY) stderr.line(stderr.paint('quiet', '\nCtrl-C stops it.'))
    if (!signal.aborted) await once(signal, 'abort')
    return Exit.done
  } finally {
    await service.close()
  }
}

/** An answer takes half of its time on the way to being counted, and half on the way back. */
function optionsOf({ flags }: Command<'sandbox'>): Partial<SandboxOptions> {
  const { latency, jobDelay } = flags
  const half =
    latency === null || typeof latency === 'number'
      ? (latency ?? 0) / 2
      : ([latency[0] / 2, latency[1] / 2] as const)
  return {
    port: flags.port ?? 0,
    limit: flags.limit,
    windowMs: flags.window,
    faults: flags.fault,
    ...(flags.host !== null && { host: flags.host }),
    ...(flags.key !== null && { keys: flags.key.split(',').map((key) => key.trim()) }),
    ...(flags.secret !== null && { webhookSecret: flags.secret }),
    ...(flags.seed !== null && { seed: flags.seed }),
    ...(latency !== null && { latencyBeforeMs: half, latencyAfterMs: half }),
    ...(jobDelay !== null && { jobDelayMs: jobDelay }),
  }
}

function portTaken(error: unknown, { flags }: Command<'sandbox'>): UsageError | null {
  if ((error as { code?: string }).code !== 'EADDRINUSE') return null
  return new UsageError(`port ${flags.port} is taken by another program; --port 0 takes any that is free`, {
    usage: usageOf('sandbox'),
    help: 'fillrate sandbox --help',
  })
}
