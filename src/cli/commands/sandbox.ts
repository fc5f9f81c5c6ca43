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
  .summary("the service's interface on this machine, with faults to choose")
  .description(
    'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed deliveries. ' +
      'Records are made up from the input, the same for the same seed. Counts are at /_stats.',
  )
  .addOption(portOption('--port <N>', 'default: 4010; 0: any that is free', 4010))
  .addOption(textOption('--host <HOST>', 'default: 127.0.0.1'))
  .addOption(wholeNumberOption('--limit <N>', 'calls in a window; default: no limit', 1, null))
  .addOption(durationOption('--window <2s>', 'the length of a window; default: 10s', 10_000))
  .addOption(
    repeatableOption(
      '--key <KEY>',
      'an API key that it takes; may be repeated; default: sandbox-key',
      null,
      parseText,
      (before, next) => `${before},${next}`,
    ),
  )
  .addOption(
    textOption('--secret <SECRET>', 'what it signs deliveries with; default: sandbox-webhook-secret'),
  )
  .addOption(wholeNumberOption('--seed <N>', 'decides records, faults and delays; default: 1', 0, null))
  .addOption(durationRangeOption('--latency <20-200ms>', 'how long an answer takes; default: none'))
  .addOption(
    durationRangeOption('--job-delay <1-5s>', 'the wait between a job and its delivery; default: 200-1000ms'),
  )
  .addOption(
    repeatableOption(
      '--fault <NAME=SHARE,…>',
      'what goes wrong, and how often (0.05 or 5%); may be repeated',
      {},
      adaptParser(parseFaults),
      (before, next) => ({ ...before, ...next }),
    ),
  )

export const sandboxCommand = defineCommand(sandboxParser, {
  group: 'try',
  examples: [
    ['fillrate sandbox --limit 200 --window 2s', 'a quota of 200 calls in 2 seconds'],
    ['fillrate sandbox --fault 500=5%,duplicate=10%', 'errors, and deliveries that come twice'],
  ],
  onInterrupt: CLOSING_MESSAGE,
  longLived: true,
  terms: { title: 'Faults', list: faultMeanings },

  async handler({ command, flags }, context) {
    const { startSandbox } = await import('../../sandbox/server.ts')
    const { describeSandbox } = await import('../../sandbox/describe.ts')
    const { stdout, stderr, signal } = context
    const service = await startSandbox(optionsOf(flags)).catch((error: unknown) => {
      throw portTaken(error, command, flags.port) ?? error
    })
    try {
      const { lines, ...description } = describeSandbox(service)
      if (flags.json) writeJson(stdout, description)
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
  },
})

/** An answer takes half of its time on the way to being counted, and half on the way back. */
function optionsOf(flags: InvocationOf<typeof sandboxParser>['flags']): Partial<SandboxOptions> {
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

function portTaken(error: unknown, command: CliCommand, taken: number): Error | null {
  if ((error as { code?: string }).code !== 'EADDRINUSE') return null
  return createUsageError(
    command,
    `port ${taken} is taken by another program; --port 0 takes any that is free`,
  )
}
