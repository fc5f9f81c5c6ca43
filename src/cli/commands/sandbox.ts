import { once } from 'node:events'
import { resolve } from 'node:path'
import type { ServiceCase } from '../../actions/service-cases.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { pluralize } from '../../util/format.ts'
import { FAULT_MEANINGS, parseFaults } from '../../sandbox/faults.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import {
  CLOSING_MESSAGE,
  type CliCommand,
  type Context,
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

const DEFAULT_HOST = '127.0.0.1'

const sandboxParser = createParser('sandbox')
  .summary('runs a local stand-in for the enrichment service, with configurable faults')
  .description(
    'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed webhooks. ' +
      'Records are generated from the input and are the same for the same seed. Statistics are at /_stats.',
  )
  .addOption(
    textOption(
      '--service <MODULE>',
      'plays the `cases` of a service in place of the built-in one; of the other options only --port and --host count',
    ),
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
    ['fillrate sandbox --service ./my-service.ts', 'a service of your own, from its cases'],
    ['fillrate sandbox --fault 500=5%,duplicate=10%', 'server errors and duplicate webhooks'],
  ],
  onInterrupt: CLOSING_MESSAGE,
  longLived: true,
  terms: { title: 'Faults', list: FAULT_MEANINGS },

  async handler({ command, flags }, context) {
    if (flags.service !== null) return playService(flags.service, { command, flags }, context)
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

/** Answers from the cases of a service until it is interrupted. */
async function playService(
  module: string,
  { command, flags }: Pick<InvocationOf<typeof sandboxParser>, 'command' | 'flags'>,
  { stdout, stderr, signal, cwd }: Context,
): Promise<(typeof Exit)[keyof typeof Exit]> {
  const { loadService, loadServiceCases } = await import('../../config/load.ts')
  const { parseService } = await import('../../config/service.ts')
  const { openServiceStandIn } = await import('../../actions/service-stand-in.ts')
  const path = resolve(cwd, module)
  const { service, problems } = parseService(await loadService(path))
  if (service === null) throw new ConfigProblems(path, problems)
  const cases = (await loadServiceCases(path)) as readonly ServiceCase[]
  const standIn = await openServiceStandIn(service, cases, {
    host: flags.host ?? DEFAULT_HOST,
    port: flags.port,
  }).catch((error: unknown) => {
    throw toPortError(error, command, flags.port) ?? error
  })
  try {
    if (flags.json) writeJson(stdout, { url: standIn.url, service: service.name, cases: standIn.cases })
    else {
      stdout.line(`${service.name}  ${pluralize(standIn.cases, 'case')} at ${standIn.url}`)
      stdout.line()
      stdout.line(stdout.paint('heading', 'Environment'))
      stdout.line(`  export FILLRATE_BASE_URL=${standIn.url}`)
      stdout.line('  export FILLRATE_API_KEY=any')
    }
    if (stderr.isTTY) stderr.line(stderr.paint('quiet', '\nPress Ctrl-C to stop.'))
    if (!signal.aborted) await once(signal, 'abort')
    return Exit.done
  } finally {
    await standIn.close()
  }
}

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
