import { once } from 'node:events'
import { faultMeanings, parseFaults } from '../../sandbox/faults.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import {
  CLOSING_MESSAGE,
  type CliCommand,
  Exit,
  type InvocationOf,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import {
  durationOption,
  durationRangeOption,
  adaptParser,
  parseText,
  portOption,
  repeatableOption,
  textOption,
  wholeNumberOption,
} from '../options.ts'
import { writeJson } from '../terminal.ts'

const sandboxParser = createParser('sandbox')
  .summary('runs a local stand-in for the enrichment service, with configurable faults')
  .description(
    'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed webhooks. ' +
      'Records are generated from the input and are the same for the same seed. Statistics are at /_stats.',
  )
  .addOption(portOption('--port <N>', 'default: 4010; 0: any free port', 4010))
  .addOption(textOption('--host <HOST>', 'default: 127.0.0.1'))
  .addOption(wholeNumberOption('--limit <N>', 'calls per window; default: no limit', 1, null))
  .addOption(durationOption('--window <2s>', 'length of a window; default: 10s', 10_000))
  .addOption(
    repeatableOption(
      '--key <KEY>',
      'an accepted API key; can be repeated; default: sandbox-key',
      null,
      parseText,
      (before, next) => `${before},${next}`,
    ),
  )
  .addOption(textOption('--secret <SECRET>', 'webhook signing secret; default: sandbox-webhook-secret'))
  .addOption(wholeNumberOption('--seed <N>', 'determines records, faults and delays; default: 1', 0, null))
  .addOption(durationRangeOption('--latency <20-200ms>', 'response time; default: none'))
  .addOption(
    durationRangeOption('--job-delay <1-5s>', 'delay between a job and its webhook; default: 200-1000ms'),
  )
  .addOption(
    repeatableOption(
      '--fault <NAME=SHARE,…>',
      'a fault and its frequency (0.05 or 5%); can be repeated',
      {},
      adaptParser(parseFaults),
      (before, next) => ({ ...before, ...next }),
    ),
  )

export const sandboxCommand = defineCommand(sandboxParser, {
  group: 'test',
  examples: [
    ['fillrate sandbox --limit 200 --window 2s', 'a limit of 200 calls in 2 seconds'],
    ['fillrate sandbox --fault 500=5%,duplicate=10%', 'server errors and duplicate webhooks'],
  ],
  onInterrupt: CLOSING_MESSAGE,
  longLived: true,
  terms: { title: 'Faults', list: faultMeanings },

  async handler({ command, flags }, context) {
    const { startSandbox } = await import('../../sandbox/server.ts')
    const { describeSandbox } = await import('../../sandbox/describe.ts')
    const { stdout, stderr, signal } = context
    const service = await startSandbox(toSandboxOptions(flags)).catch((error: unknown) => {
      throw toPortError(error, command, flags.port) ?? error
    })
    try {
      const { lines, ...description } = describeSandbox(service)
      if (flags.json) writeJson(stdout, description)
      else {
        stdout.lines(lines)
        stdout.line()
        stdout.line(stdout.paint('heading', 'Environment'))
        stdout.line(`  export FILLRATE_BASE_URL=${service.url}`)
        stdout.line(`  export FILLRATE_API_KEY=${service.keys[0]}`)
        stdout.line(`  export FILLRATE_WEBHOOK_SECRET=${service.webhookSecret}`)
      }
      if (stderr.isTTY) stderr.line(stderr.paint('quiet', '\nPress Ctrl-C to stop.'))
      if (!signal.aborted) await once(signal, 'abort')
      return Exit.done
    } finally {
      await service.close()
    }
  },
})

/** Half of the latency precedes the counting of a call, and half follows it. */
function toSandboxOptions(flags: InvocationOf<typeof sandboxParser>['flags']): Partial<SandboxOptions> {
  const { latency, jobDelay } = flags
  const half =
    latency === null || typeof latency === 'number'
      ? (latency ?? 0) / 2
      : ([latency[0] / 2, latency[1] / 2] as const)
  return {
    port: flags.port,
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

function toPortError(error: unknown, command: CliCommand, taken: number): Error | null {
  if ((error as { code?: string }).code !== 'EADDRINUSE') return null
  return createUsageError(command, `port ${taken} is in use by another program; --port 0 takes any free port`)
}
