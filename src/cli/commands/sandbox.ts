import { once } from 'node:events'
import { FAULT_MEANINGS, parseFaults, parseShare } from '../../sandbox/faults.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import type { MsRange } from '../../sandbox/rng.ts'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  CLOSING_MESSAGE,
  type CliCallOf,
  Exit,
  UsageError,
  createParser,
  defineCommand,
  printAnswer,
} from '../command.ts'
import {
  ExpectedError,
  parseMs,
  parseMsRange,
  parsePortNumber,
  parseText,
  parseWholeFrom,
  repeatableOption,
} from '../options.ts'

const sandboxParser = createParser('sandbox')
  .summary('runs a local stand-in for the enrichment service, with configurable faults')
  .description(
    'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed webhooks. ' +
      'Records are generated from the input and are the same for the same seed. Statistics are at /_stats.',
  )
  .option('--port <N>', 'default: 4010; 0: any free port', parsePortNumber, 4010)
  .option('--host <HOST>', 'default: 127.0.0.1', parseText, '127.0.0.1')
  .option('--limit <N>', 'calls per window; default: no limit', parseWholeFrom(1), null)
  .option('--window <2s>', 'length of a window; default: 10s', parseMs, 10_000)
  .addOption(
    repeatableOption(
      '--key <KEY>',
      'an accepted API key; can be repeated; default: sandbox-key',
      null,
      parseText,
      (before, next) => `${before},${next}`,
    ),
  )
  .option(
    '--secret <SECRET>',
    'webhook signing secret; default: sandbox-webhook-secret',
    parseText,
    'sandbox-webhook-secret',
  )
  .option('--seed <N>', 'determines records, faults and delays; default: 1', parseWholeFrom(0), 1)
  .option(
    '--knows <SHARE>',
    'share of the people and companies that it knows, others with another seed; default: 87.5%',
    parseKnownShare,
    0.875,
  )
  .option('--latency <20-200ms>', 'response time; default: none', parseMsRange, 0)
  .option('--job-delay <1-5s>', 'delay between a job and its webhook; default: 200-1000ms', parseMsRange, [
    200, 1_000,
  ] as const)
  .addOption(
    repeatableOption(
      '--fault <NAME=SHARE,…>',
      'a fault and its frequency (0.05 or 5%); can be repeated',
      {},
      parseFaultShares,
      (before, next) => ({ ...before, ...next }),
    ),
  )

export const sandboxCommand = defineCommand(sandboxParser, {
  group: 'test',
  examples: [
    ['fillrate sandbox --limit 200 --window 2s', 'a limit of 200 calls in 2 seconds'],
    ['fillrate sandbox --port 4011 --seed 2 --knows 45%', 'a second service, which knows other people'],
    ['fillrate sandbox --fault 500=5%,duplicate=10%', 'server errors and duplicate webhooks'],
  ],
  environment: [],
  onInterrupt: CLOSING_MESSAGE,
  longLived: true,
  terms: { title: 'Faults', list: FAULT_MEANINGS },

  async handler(call) {
    const { startSandbox } = await import('../../sandbox/server.ts')
    const service = await startSandbox(toSandboxOptions(call.flags)).catch(toPortError(call))
    call.onEnd(() => service.close())
    const { lines, ...description } = describeSandbox(service)
    const { stdout, stderr, signal } = call
    printAnswer(call, {
      json: description,
      text: () => [
        ...lines,
        '',
        stdout.paint('heading', 'Environment'),
        `  export FILLRATE_BASE_URL=${service.url}`,
        `  export FILLRATE_API_KEY=${service.keys[0] ?? ''}`,
        `  export FILLRATE_WEBHOOK_SECRET=${service.webhookSecret}`,
      ],
    })
    if (stderr.isTTY) stderr.line(stderr.paint('quiet', '\nPress Ctrl-C to stop.'))
    if (!signal.aborted) await once(signal, 'abort')
    return Exit.done
  },
})

type SandboxCall = CliCallOf<typeof sandboxParser>

/** The shares of faults, whose error says what was expected. */
function parseFaultShares(text: string): SandboxOptions['faults'] {
  try {
    return parseFaults(text)
  } catch (error) {
    throw new ExpectedError((error as Error).message)
  }
}

function parseKnownShare(text: string): number {
  const share = parseShare(text)
  if (share === undefined) throw new ExpectedError('a share from 0 to 1, as 0.45 or 45%')
  return share
}

/** Half of the latency precedes the counting of a call, and half follows it. */
function toSandboxOptions({ latency, jobDelay, ...flags }: SandboxCall['flags']): Partial<SandboxOptions> {
  const half = typeof latency === 'object' ? ([latency[0] / 2, latency[1] / 2] as const) : latency / 2
  return {
    host: flags.host,
    port: flags.port,
    limit: flags.limit,
    windowMs: flags.window,
    faults: flags.fault,
    ...(flags.key !== null && { keys: flags.key.split(',').map((key) => key.trim()) }),
    webhookSecret: flags.secret,
    seed: flags.seed,
    notFoundShare: 1 - flags.knows,
    latencyBeforeMs: half,
    latencyAfterMs: half,
    jobDelayMs: jobDelay,
  }
}

const toPortError =
  ({ command, flags }: SandboxCall) =>
  (error: unknown): never => {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    throw new UsageError(
      command,
      `port ${flags.port} is in use by another program; --port 0 takes any free port`,
    )
  }

const describeTime = (range: MsRange): string =>
  typeof range === 'number' ? `${range} ms` : `${range[0]} to ${range[1]} ms`

const describeShare = (share: number): string => `${Number((share * 100).toFixed(2))}%`

/** What a user or a program needs to call a sandbox, and the same as lines to print. With its keys and its secret. */
export function describeSandbox({ url, keys, webhookSecret, settings }: Sandbox) {
  const { limit, windowMs, faults } = settings
  const rateLimit = limit === null ? 'no limit' : `${limit} calls in ${windowMs} ms for each key`
  const latency = `${describeTime(settings.latencyBeforeMs)} there, ${describeTime(settings.latencyAfterMs)} to answer`
  const jobs = `delivered after ${describeTime(settings.jobDelayMs)}, retried ${settings.retryDelaysMs.length} times`
  const injected = Object.entries(faults).filter(([, share]) => share > 0)
  const rows = [
    ['address', url],
    ['keys', keys.join(', ')],
    ['webhook secret', webhookSecret],
    ['rate limit', rateLimit],
    ['latency', latency],
    ['jobs', jobs],
    ['records', `${describeShare(settings.notFoundShare)} not found, seed ${settings.seed}`],
    ['faults', injected.map(([name, share]) => `${name} ${describeShare(share)}`).join(', ') || 'none'],
    ['counts', `${url}/_stats`],
  ] as const
  const lines = rows.map(([name, value]) => `${name.padEnd(14)}  ${value}`)
  return { url, keys, webhook_secret: webhookSecret, rate_limit: rateLimit, latency, jobs, faults, lines }
}
